package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// patience bounds every wait of a test; none is expected to take this long.
const patience = 30 * time.Second

// testCluster is a few nodes in this process.
type testCluster struct {
	t      testing.TB
	fabric *fabric
	hub    *Hub
	dir    string
	names  []string
	nodes  map[string]*Node // those that run
	skew   map[string]*atomic.Int64
	change func(name string, c *Config) // of each node's configuration
}

// newCluster founds a cluster of n nodes, named a, b, c and so on.
func newCluster(t testing.TB, n int, change func(string, *Config)) *testCluster {
	t.Helper()
	c := &testCluster{
		t: t, fabric: newFabric(), hub: NewHub(), dir: t.TempDir(),
		nodes: make(map[string]*Node), skew: make(map[string]*atomic.Int64), change: change,
	}
	for i := range n {
		name := string(rune('a' + i))
		c.names = append(c.names, name)
		c.skew[name] = new(atomic.Int64)
	}
	t.Cleanup(c.stopAll)
	c.startAll()
	c.leader()
	return c
}

func testLogger(name string) *slog.Logger {
	level := slog.LevelError + 4
	if os.Getenv("CLUSTER_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("node", name)
}

func (c *testCluster) config(name string) Config {
	skew := c.skew[name]
	cfg := Config{
		NodeID: name, DataDir: filepath.Join(c.dir, name), PeerListen: "127.0.0.1:0", Discovery: c.hub.Discovery(),
		Network: c.fabric.node(name), Expect: len(c.names), Logger: testLogger(name),
		Clock:  func() time.Time { return time.Now().Add(time.Duration(skew.Load())) },
		tuning: defaultTuning(),
	}
	// Generous, so that a busy machine does not look like a lost leader.
	cfg.tuning.heartbeat, cfg.tuning.lease = time.Second, 800*time.Millisecond
	cfg.tuning.rpcTimeout, cfg.tuning.pingInterval, cfg.tuning.peerTimeout = time.Second, 100*time.Millisecond, 2*time.Second
	cfg.tuning.goneAfter, cfg.tuning.levelFor = time.Second, 300*time.Millisecond
	cfg.tuning.leaderWait, cfg.tuning.confirmTimeout = patience/2, time.Second
	cfg.tuning.minFreeBytes, cfg.tuning.segment = 0, 1<<20
	if c.change != nil {
		c.change(name, &cfg)
	}
	return cfg
}

func (c *testCluster) start(name string) *Node {
	c.t.Helper()
	n, err := Start(c.t.Context(), c.config(name))
	if err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	c.nodes[name] = n
	return n
}

func (c *testCluster) startAll() {
	c.t.Helper()
	for _, name := range c.names {
		c.start(name)
	}
}

func (c *testCluster) stop(name string) {
	c.t.Helper()
	n := c.nodes[name]
	delete(c.nodes, name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		c.t.Errorf("stop %s: %v", name, err)
	}
}

// stopAll stops the nodes at once, so that none looks for another leader.
func (c *testCluster) stopAll() {
	done := make(chan string)
	nodes := c.nodes
	c.nodes = make(map[string]*Node)
	for name, n := range nodes {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := n.Shutdown(ctx); err != nil {
				c.t.Errorf("stop %s: %v", name, err)
			}
			done <- name
		}()
	}
	for range nodes {
		<-done
	}
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// leader waits for the one node that serves and returns it. Cut off nodes are
// to be left out.
func (c *testCluster) leader(without ...string) (leader *Node) {
	c.t.Helper()
	eventually(c.t, "a leader serves and all know it", func() bool {
		leader = nil
		for _, n := range c.others(without...) {
			if n.office.Load() != nil {
				leader = n
			}
		}
		if leader == nil {
			return false
		}
		for _, n := range c.others(without...) {
			if n != leader && (n.leaderID() != leader.self || n.mesh.link(leader.self) == nil) {
				return false
			}
		}
		return true
	})
	return leader
}

// others returns the running nodes but some, by name.
func (c *testCluster) others(without ...string) (ns []*Node) {
	skip := make(map[string]bool)
	for _, w := range without {
		skip[w] = true
	}
	for _, name := range c.names {
		if n := c.nodes[name]; n != nil && !skip[name] {
			ns = append(ns, n)
		}
	}
	return ns
}

func name(n *Node) string { return n.cfg.NodeID }

func (c *testCluster) otherNames(than string) (names []string) {
	for _, n := range c.names {
		if n != than {
			names = append(names, n)
		}
	}
	return names
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustDo(t testing.TB, n *Node, cmd fsm.Command) fsm.Result {
	t.Helper()
	if cmd.Spool == "" {
		cmd.Spool = fsm.DefaultSpool
	}
	r, err := n.Do(within(t), &cmd)
	if err != nil {
		t.Fatalf("%s: command %d: %v", name(n), cmd.Op, err)
	}
	return r
}

// makeQueue makes a queue that remembers keys.
func makeQueue(t testing.TB, n *Node, queue string) {
	t.Helper()
	patch := fsm.Patch{Set: fsm.FieldDedupWindow, To: fsm.Settings{DedupWindowSeconds: 3600}}
	if r := mustDo(t, n, fsm.Command{Op: fsm.OpCreateQueue, Queue: queue, Patch: patch}); r.Code != fsm.CodeOK {
		t.Fatalf("create queue: code %d", r.Code)
	}
}

func keyed(queue, key, payload string) fsm.Command {
	return fsm.Command{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: queue, Keyed: true, Key: fsm.FingerprintOf(key), Payload: payload}
}

func stats(t *testing.T, n *Node, queue string) fsm.Stats {
	t.Helper()
	a, err := n.Read(within(t), fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Names: []string{queue}, Limit: 1})
	if err != nil || len(a.Queues) != 1 {
		t.Fatalf("stats of %s: %d queues, code %d, %v", queue, len(a.Queues), a.Code, err)
	}
	return a.Queues[0].Stats
}

// settled waits until all running nodes have applied the same and are equal.
func (c *testCluster) settled() {
	c.t.Helper()
	eventually(c.t, "all nodes have the same state", func() bool {
		var first *Status
		for _, n := range c.nodes {
			s := n.Status()
			if first == nil {
				first = &s
			}
			if s.AppliedIndex != first.AppliedIndex || s.Hash != first.Hash {
				return false
			}
		}
		return true
	})
	for _, n := range c.nodes {
		select {
		case err := <-n.Failed():
			c.t.Fatalf("%s failed: %v", name(n), err)
		default:
		}
	}
}

func (c *testCluster) addressOf(node string) string { return c.nodes[node].peerAddress() }

func key(i int) string { return fmt.Sprintf("key-%d", i) }
