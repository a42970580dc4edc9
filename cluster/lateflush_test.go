package cluster

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/hashicorp/raft-wal/types"

	"github.com/spoolraft/spoolraft/fsm"
)

// gatedFS is a file system whose flushes can be held, and made to fail.
type gatedFS struct {
	types.VFS
	gate chan error // holds what the next flush answers; empty: flushes hang
}

func newGatedFS(below types.VFS) *gatedFS {
	g := &gatedFS{below, make(chan error, 1)}
	g.gate <- nil
	return g
}

func (g *gatedFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := g.VFS.Create(dir, name, size)
	return &gatedFile{f, g}, err
}

func (g *gatedFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := g.VFS.OpenWriter(dir, name)
	return &gatedFile{f, g}, err
}

type gatedFile struct {
	types.WritableFile
	fs *gatedFS
}

func (f *gatedFile) Sync() error {
	answer := <-f.fs.gate
	f.fs.gate <- answer
	if answer != nil {
		return answer
	}
	return f.WritableFile.Sync()
}

// newGatedCluster is one of three nodes with gated disks, led by a.
func newGatedCluster(t *testing.T) (*testCluster, map[string]*gatedFS) {
	disks := make(map[string]*gatedFS)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		disks[name] = newGatedFS(cfg.tuning.files)
		cfg.tuning.files = disks[name]
		cfg.tuning.storeSlow, cfg.tuning.storeDead = patience, 2*patience
	})
	lead(t, c, "a")
	makeQueue(t, c.nodes["a"], "q")
	return c, disks
}

// hold has a's flushes hang, sends a message, and returns when a majority has
// it, but a's disk does not.
func hold(t *testing.T, c *testCluster, a *gatedFS) (index uint64, answer chan error) {
	<-a.gate
	n := c.nodes["a"]
	before := n.raft.Load().LastIndex()
	answer = make(chan error, 1)
	cmd := keyed("q", "k", "")
	go func() {
		_, err := n.attempt(within(t), &cmd)
		answer <- err
	}()
	eventually(t, "a majority has the entry", func() bool { return n.raft.Load().CommitIndex() > before })
	return before + 1, answer
}

// TestNothingDependsOnAnEntryBeforeItsFlush: while the leader's flush hangs, the
// followers store the entry, and nobody takes it for committed.
func TestNothingDependsOnAnEntryBeforeItsFlush(t *testing.T) {
	t.Parallel()
	c, disks := newGatedCluster(t)
	index, answer := hold(t, c, disks["a"])
	eventually(t, "both followers have the entry", func() bool {
		return c.nodes["b"].raft.Load().LastIndex() == index && c.nodes["c"].raft.Load().LastIndex() == index
	})
	a := c.nodes["a"]
	if got := a.store.log.late.limit(index); got != index-1 {
		t.Errorf("the leader tells followers of commits up to %d, but has flushed only what is before %d", got, index)
	}
	for name, n := range c.nodes {
		if got := n.replica.index.Load(); got >= index {
			t.Errorf("%s has applied %d, before the leader has flushed %d", name, got, index)
		}
		if got := n.raft.Load().CommitIndex(); name != "a" && got >= index {
			t.Errorf("%s was told that %d is committed", name, got)
		}
	}
	select {
	case err := <-answer:
		t.Fatalf("answered before the flush: %v", err)
	default:
	}
	disks["a"].gate <- nil
	if err := <-answer; err != nil {
		t.Error(err)
	}
	c.settled()
}

// TestALateFlushThatFails gives the leader up. Whoever follows has the entry.
func TestALateFlushThatFails(t *testing.T) {
	t.Parallel()
	c, disks := newGatedCluster(t)
	_, answer := hold(t, c, disks["a"])
	disks["a"].gate <- syscall.EIO
	select {
	case <-c.nodes["a"].Failed():
	case <-within(t).Done():
		t.Fatal("a leader goes on that could not flush its log")
	}
	c.stop("a")
	if err := <-answer; !errors.Is(err, fsm.ErrUnknown) {
		t.Errorf("answered %v", err)
	}
	if r := retryUntilKnown(t, c.leader(), keyed("q", "k", "")); r.Code != fsm.CodeDuplicate {
		t.Errorf("the entry that a majority had is lost: %+v", r)
	}
}

// TestAnswersToMembersWaitForTheFlush: what a node that led says about its log has
// to hold after a power cut. What it asks may go ahead.
func TestAnswersToMembersWaitForTheFlush(t *testing.T) {
	var happened []string
	layer := &streamLayer{open: make(map[*raftConn]struct{}), settled: func() { happened = append(happened, "flushed") }}
	for _, answers := range []bool{true, false} {
		conn, err := layer.track(writes{tell: func() { happened = append(happened, "written") }}, answers)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"flushed", "written", "written"}; !slices.Equal(happened, want) {
		t.Errorf("happened: %v, want %v", happened, want)
	}
}

// writes is a connection that tells of writes.
type writes struct {
	net.Conn
	tell func()
}

func (w writes) Write(b []byte) (int, error) {
	w.tell()
	return len(b), nil
}

// TestTheListOfSegmentsWaitsForTheFlush, except before anything was written: then
// the write may be waiting for the list.
func TestTheListOfSegmentsWaitsForTheFlush(t *testing.T) {
	late := &lateFlush{fault: newDiskFault(nil, nil)}
	file := &lateFile{&gatedFile{fs: &gatedFS{gate: make(chan error)}}, late}
	f := late.begin(7)
	late.written() // returns
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	listed := make(chan struct{})
	go func() {
		late.written()
		if late.current.Load() != nil {
			t.Error("a segment is listed before it is flushed")
		}
		close(listed)
	}()
	late.end(f)
	<-listed
	if late.putOff(file) {
		t.Error("a flush was put off after the write")
	}
}
