package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// brokenStable is a disk that takes no votes any more.
type brokenStable struct {
	raft.StableStore
	broken atomic.Bool
}

func (b *brokenStable) Set(key, val []byte) error {
	if b.broken.Load() {
		return &os.PathError{Op: "write", Path: "votes.db", Err: syscall.EIO}
	}
	return b.StableStore.Set(key, val)
}

// brokenLog is a disk that fails as told.
type brokenLog struct {
	logStore
	write, read atomic.Pointer[error]
}

func (b *brokenLog) StoreLogs(logs []*raft.Log) error {
	if err := b.write.Load(); err != nil {
		return *err
	}
	return b.logStore.StoreLogs(logs)
}

func (b *brokenLog) GetLog(index uint64, l *raft.Log) error {
	if err := b.read.Load(); err != nil {
		return *err
	}
	return b.logStore.GetLog(index, l)
}

func (b *brokenLog) IsMonotonic() bool { return true }

// TestVotesCannotBeWritten ends a node with one line when its disk takes no
// votes, where raft would panic. The others go on.
func TestVotesCannotBeWritten(t *testing.T) {
	t.Parallel()
	disks := make(map[string]*brokenStable)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		cfg.tuning.wrapVotes = func(s raft.StableStore) raft.StableStore {
			disks[name] = &brokenStable{StableStore: s}
			return disks[name]
		}
	})
	makeQueue(t, c.nodes["a"], "q")
	victim := c.otherNames(name(c.leader()))[0]
	n := c.nodes[victim]
	disks[victim].broken.Store(true)
	_ = c.leader().handOver(within(t), anybody) // to it or to another: a new term to write down
	mustFailWith(t, n, "votes.db", "does not take writes", "start the node again")
	rest := c.leader(victim)
	retryUntilKnown(t, rest, keyed("q", "k", ""))
	c.stop(victim) // and nothing of it hangs
}

func mustFailWith(t *testing.T, n *Node, parts ...string) {
	t.Helper()
	select {
	case err := <-n.Failed():
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q does not say %q", err, p)
			}
		}
		if strings.Contains(err.Error(), "damaged: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("failed with %q", err)
		}
	case <-within(t).Done():
		t.Fatal("the node goes on")
	}
}

// TestLogCannotBeWritten ends a leader whose disk does not take the log; where it
// is only full, the node stays.
func TestLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	logs := make(map[string]*brokenLog)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		cfg.tuning.wrapLog = func(s logStore) logStore {
			logs[name] = &brokenLog{logStore: s}
			return logs[name]
		}
	})
	makeQueue(t, c.nodes["a"], "q")
	full, broken := error(syscall.ENOSPC), fmt.Errorf("append: %w", syscall.EIO)

	follower := c.otherNames(name(c.leader()))[0]
	logs[follower].write.Store(&full)
	retryUntilKnown(t, c.leader(follower), keyed("q", "k1", ""))
	logs[follower].write.Store(nil)
	c.leader()
	c.settled()

	leader := c.leader()
	logs[name(leader)].write.Store(&broken)
	cmd := keyed("q", "k2", "")
	go leader.attempt(within(t), &cmd)
	mustFailWith(t, leader, "log", "does not take writes")
	retryUntilKnown(t, c.leader(name(leader)), keyed("q", "k2", ""))
	c.stop(name(leader))
}

// TestDiskFailsAtStart tells a disk that answers with errors from files that are
// damaged.
func TestDiskFailsAtStart(t *testing.T) {
	t.Parallel()
	dir := dataDir(t, LogStoreBolt)
	cfg := alone(dir, LogStoreBolt)
	broken := fmt.Errorf("read: %w", syscall.EIO)
	cfg.tuning.wrapLog = func(s logStore) logStore {
		b := &brokenLog{logStore: s}
		b.read.Store(&broken)
		return b
	}
	n, err := Start(t.Context(), cfg)
	if err == nil {
		n.Shutdown(t.Context())
		t.Fatal("it started")
	}
	if d := (diskError{}); !errors.As(err, &d) || strings.Contains(err.Error(), "empty") || !strings.Contains(err.Error(), "log.db") {
		t.Errorf("it says %v", err)
	}
	// Raft, too, may be the first to notice.
	cfg = alone(dir, LogStoreBolt)
	cfg.tuning.wrapLog = func(s logStore) logStore { return &failingLater{logStore: s} }
	n, err = Start(t.Context(), cfg)
	if err == nil {
		n.Shutdown(t.Context())
		t.Fatal("it started")
	}
	if d := (diskError{}); !errors.As(err, &d) {
		t.Errorf("it says %v", err)
	}
}

// failingLater can be read once.
type failingLater struct {
	logStore
	reads atomic.Int64
}

func (f *failingLater) GetLog(index uint64, l *raft.Log) error {
	first, _ := f.FirstIndex()
	last, _ := f.LastIndex()
	if f.reads.Add(1) > int64(last-first+1) {
		return syscall.EIO
	}
	return f.logStore.GetLog(index, l)
}

func TestAsDamage(t *testing.T) {
	path := filepath.Join("d", "f")
	for _, tt := range []struct {
		err  error
		disk bool
		say  string
	}{
		{errors.New("bad page"), false, "is damaged"},
		{&os.PathError{Op: "open", Path: path, Err: syscall.ENOENT}, false, "is damaged"},
		{&os.PathError{Op: "read", Path: path, Err: syscall.EIO}, true, "cannot be read"},
		{fmt.Errorf("mmap: %w", syscall.EROFS), true, "cannot be read"},
		{fmt.Errorf("x: %w", syscall.ENOSPC), true, "full"},
		{damagedError{path, "x", syscall.EIO}, false, "is damaged"},
	} {
		err := asDamage(path, "it cannot be opened", tt.err)
		if d := (diskError{}); errors.As(err, &d) != tt.disk || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%v became %v", tt.err, err)
		}
	}
}
