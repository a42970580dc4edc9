package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// damage is a way to break a data directory. want names the file.
type damage struct {
	name  string
	store string
	do    func(t *testing.T, dir string)
	want  string
}

func flip(t *testing.T, path string, find []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, find) {
		t.Fatalf("%s does not hold %q", path, find)
	}
	// Everywhere: bolt leaves old copies behind.
	data = bytes.ReplaceAll(data, find, append([]byte{find[0] ^ 1}, find[1:]...))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	return paths[len(paths)-1]
}

// scribble overwrites all pages of a bolt file but the first two.
func scribble(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 2 * os.Getpagesize(); i < len(data); i++ {
		data[i] ^= byte(i * 7)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

var damages = []damage{
	{"bit in an entry", LogStoreWAL, func(t *testing.T, dir string) { flip(t, one(t, dir+"/log/*.wal"), []byte("payload number 3")) }, "log"},
	{"bit in an entry, bolt", LogStoreBolt, func(t *testing.T, dir string) { flip(t, dir+"/log.db", []byte("payload number 3")) }, "log.db"},
	{"bit in the last entry", LogStoreWAL, func(t *testing.T, dir string) { flip(t, one(t, dir+"/log/*.wal"), []byte("payload number 9")) }, "log"},
	{"log cut off", LogStoreWAL, func(t *testing.T, dir string) {
		path := one(t, dir+"/log/*.wal")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(data[bytes.Index(data, []byte("payload number 3"))-200:])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}, "log"},
	{"log file missing", LogStoreWAL, func(t *testing.T, dir string) { os.Remove(one(t, dir+"/log/*.wal")) }, "log"},
	{"log missing", LogStoreWAL, remove("log"), "log"},
	{"log missing, bolt", LogStoreBolt, remove("log.db"), "log.db"},
	{"bolt cut off", LogStoreBolt, func(t *testing.T, dir string) { os.Truncate(dir+"/log.db", 8192) }, "log.db"},
	{"votes missing", LogStoreWAL, remove("votes.db"), "votes.db"},
	{"votes emptied", LogStoreWAL, func(t *testing.T, dir string) { os.Truncate(dir+"/votes.db", 0) }, "votes.db"},
	{"votes cut off", LogStoreWAL, func(t *testing.T, dir string) { os.Truncate(dir+"/votes.db", 12288) }, "votes.db"},
	{"page in the votes overwritten", LogStoreWAL, func(t *testing.T, dir string) { scribble(t, dir+"/votes.db") }, "votes.db"},
	{"page in bolt overwritten", LogStoreBolt, func(t *testing.T, dir string) { scribble(t, dir+"/log.db") }, "log.db"},
	{"page in the list of log files overwritten", LogStoreWAL, func(t *testing.T, dir string) { scribble(t, dir+"/log/wal-meta.db") }, "wal-meta.db"},
	{"bit in the votes", LogStoreWAL, func(t *testing.T, dir string) { flip(t, dir+"/votes.db", []byte("LastVoteCand")) }, "votes.db"},
	{"identity missing", LogStoreWAL, remove("node.json"), "node.json"},
	{"identity garbled", LogStoreWAL, func(t *testing.T, dir string) { os.WriteFile(dir+"/node.json", []byte("{"), 0o600) }, "node.json"},
	{"bit in a snapshot", LogStoreWAL, func(t *testing.T, dir string) {
		flip(t, one(t, dir+"/snapshots/*/state.bin"), []byte("payload number 2"))
	}, "state.bin"},
	{"snapshot's description garbled", LogStoreWAL, func(t *testing.T, dir string) { os.Truncate(one(t, dir+"/snapshots/*/meta.json"), 5) }, "meta.json"},
	{"snapshots missing", LogStoreWAL, remove("snapshots"), "log"},
}

// TestDamagedFilesAreRefused breaks the files of a stopped node, each in its own
// copy of the directory.
func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	whole := map[string]string{LogStoreWAL: dataDir(t, LogStoreWAL), LogStoreBolt: dataDir(t, LogStoreBolt)}
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a")
			if err := os.CopyFS(dir, os.DirFS(whole[d.store])); err != nil {
				t.Fatal(err)
			}
			d.do(t, dir)
			n, err := Start(t.Context(), alone(dir, d.store))
			if err == nil {
				n.Shutdown(t.Context())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), d.want) {
				t.Errorf("the error does not name %s: %v", d.want, err)
			}
		})
	}
	t.Run("whole", func(t *testing.T) {
		for store, dir := range whole {
			n, err := Start(t.Context(), alone(dir, store))
			if err != nil {
				t.Fatal(err)
			}
			n.Shutdown(t.Context())
		}
	})
}

func alone(dir, store string) Config {
	cfg := Config{NodeID: "a", DataDir: dir, PeerListen: "127.0.0.1:0", Discovery: NewHub().Discovery(), LogStore: store, tuning: defaultTuning(), Logger: testLogger("a")}
	cfg.tuning.heartbeat, cfg.tuning.lease = 200*time.Millisecond, 200*time.Millisecond
	cfg.tuning.minFreeBytes, cfg.tuning.segment = 0, 1<<20
	return cfg
}

// dataDir makes the data directory of a node that has been in use: a snapshot,
// and entries before and after it that are still in the log.
func dataDir(t *testing.T, store string) string {
	t.Helper()
	c := newCluster(t, 1, func(_ string, cfg *Config) { cfg.LogStore = store })
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	send := func(from, to int) {
		for i := from; i < to; i++ {
			mustDo(t, n, keyed("q", key(i), "payload number "+key(i)[4:]))
		}
	}
	send(0, 3)
	r := n.raft.Load()
	rc := r.ReloadableConfig()
	rc.TrailingLogs = 2
	if err := r.ReloadConfig(rc); err != nil {
		t.Fatal(err)
	}
	if err := r.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	send(3, 10)
	c.stop("a")
	return filepath.Join(c.dir, "a")
}

func TestDataDirectoryIsUsedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := Start(t.Context(), alone(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), alone(dir, "")); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second process: %v", err)
	}
	n.Shutdown(within(t))
	other := alone(dir, "")
	other.NodeID = "b"
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("another node: %v", err)
	}
	if _, err := Start(t.Context(), alone(dir, LogStoreBolt)); err == nil || !strings.Contains(err.Error(), LogStoreWAL) {
		t.Errorf("another log store: %v", err)
	}
}

// hangingLog is a disk that can stop answering.
type hangingLog struct {
	logStore
	gate chan struct{} // holds a token while the disk answers
}

func (h *hangingLog) StoreLogs(logs []*raft.Log) error {
	h.gate <- <-h.gate
	return h.logStore.StoreLogs(logs)
}

func (h *hangingLog) IsMonotonic() bool { return true }

// TestHangingDisk hangs the leader's disk: the others elect somebody, and the
// node that hangs gives itself up, or goes on when the disk answers again.
func TestHangingDisk(t *testing.T) {
	long(t)
	t.Parallel()
	disks := make(map[string]*hangingLog)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		cfg.tuning.storeSlow, cfg.tuning.storeDead = 500*time.Millisecond, patience
		if name == "a" {
			cfg.tuning.storeDead = 5 * time.Second
		}
		cfg.tuning.wrapLog = func(s logStore) logStore {
			disks[name] = &hangingLog{s, make(chan struct{}, 1)}
			disks[name].gate <- struct{}{}
			return disks[name]
		}
	})
	makeQueue(t, c.nodes["a"], "q")
	lead(t, c, "b")
	<-disks["b"].gate
	hung := c.nodes["b"]
	cmd := keyed("q", "k", "")
	ctx := within(t)
	go hung.attempt(ctx, &cmd)
	eventually(t, "another node leads", func() bool { l := c.leader("b"); return l != hung })
	retryUntilKnown(t, c.leader("b"), keyed("q", "k", ""))
	disks["b"].gate <- struct{}{}
	c.leader()
	if r := retryUntilKnown(t, hung, keyed("q", "k", "")); r.Code != fsm.CodeDuplicate {
		t.Errorf("retry: %+v", r)
	}
	c.settled()

	lead(t, c, "a")
	<-disks["a"].gate
	cmd2 := keyed("q", "k2", "")
	go c.nodes["a"].attempt(ctx, &cmd2)
	select {
	case err := <-c.nodes["a"].Failed():
		if !strings.Contains(err.Error(), "disk") {
			t.Errorf("failed with %v", err)
		}
	case <-ctx.Done():
		t.Error("a node whose disk hangs goes on")
	}
	if _, err := c.nodes["a"].Do(ctx, &cmd2); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("a failed node answered %v", err)
	}
	disks["a"].gate <- struct{}{}
}

// lead makes a node the leader.
func lead(t *testing.T, c *testCluster, name string) {
	t.Helper()
	to := c.nodes[name]
	eventually(t, name+" leads", func() bool {
		l := c.leader()
		if l == to {
			return true
		}
		l.raft.Load().LeadershipTransferToServer(raft.ServerID(to.self), raft.ServerAddress(to.self)).Error()
		return false
	})
}

// TestFullDiskLeader fills one disk after the other: the leader hands over as long
// as anybody has room, then refuses.
func TestFullDiskLeader(t *testing.T) {
	t.Parallel()
	var free sync.Map
	c := newCluster(t, 3, func(name string, cfg *Config) {
		free.Store(name, uint64(1<<30))
		cfg.tuning.minFreeBytes = 1 << 20
		cfg.tuning.diskFree = func(string) (uint64, error) {
			v, _ := free.Load(name)
			return v.(uint64), nil
		}
	})
	makeQueue(t, c.nodes["a"], "q")
	filled := make(map[string]bool)
	for i := range 2 {
		full := c.leader()
		filled[name(full)] = true
		free.Store(name(full), uint64(1<<10))
		full.disk.check()
		eventually(t, "a node with room leads", func() bool { return !filled[name(c.leader())] })
		for _, n := range c.others() {
			retryUntilKnown(t, n, keyed("q", name(n)+key(i), ""))
		}
	}
	last := c.leader()
	free.Store(name(last), uint64(1<<10))
	last.disk.check()
	cmd := keyed("q", "refused", "")
	if _, err := last.Do(within(t), &cmd); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("nobody has room: %v", err)
	}
	for name := range filled {
		free.Store(name, uint64(1<<30))
		c.nodes[name].disk.check()
	}
	eventually(t, "a node with room leads again", func() bool { return c.leader() != last })
	retryUntilKnown(t, last, keyed("q", "refused", ""))
	c.settled()
}

// TestFullDisk refuses writes while the disk is nearly full, and recovers.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	free := make(chan uint64, 1)
	free <- 1 << 30
	c := newCluster(t, 1, func(_ string, cfg *Config) {
		cfg.tuning.minFreeBytes = 1 << 20
		cfg.tuning.diskFree = func(string) (uint64, error) {
			v := <-free
			free <- v
			return v, nil
		}
	})
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	<-free
	free <- 1 << 10
	n.disk.check()
	cmd := keyed("q", "k", "")
	if _, err := n.Do(within(t), &cmd); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("send on a full disk: %v", err)
	}
	if s := stats(t, n, "q"); s.Total != 0 {
		t.Errorf("a refused send left %d messages", s.Total)
	}
	<-free
	free <- 1 << 30
	n.disk.check()
	if r := mustDo(t, n, keyed("q", "k", "")); r.Code != fsm.CodeOK {
		t.Errorf("send after the disk has space again: %+v", r)
	}
}
