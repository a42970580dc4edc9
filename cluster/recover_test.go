package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// examined returns what is left in a directory, to be closed with the test.
func examined(t *testing.T, dir string) *Remains {
	t.Helper()
	r, err := Examine(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// startOn starts a node on another directory than its own.
func (c *testCluster) startOn(node, dir string) *Node {
	c.t.Helper()
	cfg := c.config(node)
	cfg.DataDir = dir
	n, err := Start(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatalf("start %s on %s: %v", node, dir, err)
	}
	c.nodes[node] = n
	return n
}

// TestRecover loses two of three nodes and goes on with the third, which keeps all
// that it had. Then the others come back, with their old directories and with
// empty ones.
func TestRecover(t *testing.T) {
	long(t)
	t.Parallel()
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			c := newCluster(t, 3, func(_ string, cfg *Config) {
				cfg.tuning.snapshotBytes = 64 << 10
				cfg.LogStore = store
			})
			makeQueue(t, c.nodes["a"], "q")
			ids := make(map[int]fsm.MessageID)
			for i := range 60 {
				ids[i] = retryUntilKnown(t, c.nodes["a"], keyed("q", key(i), strings.Repeat("x", 4000))).ID
			}
			lease := retryUntilKnown(t, c.nodes["a"], fsm.Command{Op: fsm.OpReceive, Spool: fsm.DefaultSpool, Queue: "q"})
			c.settled()
			survivor := name(c.leader())
			lost := c.otherNames(survivor)
			old := c.nodes[survivor].self
			oldCluster := c.nodes[survivor].clusterID()
			sealer, _ := c.nodes[survivor].Sealer()
			term := c.nodes[survivor].Status().Term
			c.stopAll()

			dir, into := filepath.Join(c.dir, survivor), filepath.Join(c.dir, "recovered")
			before := tree(t, dir)
			r := examined(t, dir)
			if r.NodeID != survivor || r.ClusterID != oldCluster || len(r.Members) != 3 || r.Queues != 1 || r.Messages != 60 || r.LastTerm < term || r.LastIndex < 60 {
				t.Errorf("what is left: %+v", r)
			}
			if got := r.Lost(); got != strings.Join(lost, ", ") {
				t.Errorf("lost: %s", got)
			}
			if !mapsEqual(before, tree(t, dir)) {
				t.Error("to look has changed something")
			}
			cluster, err := r.Recover(into)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			if n, err := Start(t.Context(), c.config(survivor)); err == nil || !strings.Contains(err.Error(), cluster) {
				t.Fatalf("a node starts on the old directory: %v, %v", n, err)
			}
			if again := examined(t, dir); again.Successor != cluster {
				t.Errorf("the old directory names %q", again.Successor)
			} else {
				again.Close()
			}

			n := c.startOn(survivor, into)
			eventually(t, "it leads alone", func() bool { return n.office.Load() != nil && n.Ready() == nil })
			if n.clusterID() != cluster || cluster == oldCluster || n.self == old || n.self.node() != old.node() {
				t.Errorf("it is %s of %s, was %s of %s", n.self, n.clusterID(), old, oldCluster)
			}
			if got := n.Status().Term; got <= term {
				t.Errorf("term %d, was %d", got, term)
			}
			for i := range 60 {
				if got := mustDo(t, n, keyed("q", key(i), "")); got.Code != fsm.CodeDuplicate || got.ID != ids[i] {
					t.Fatalf("send %d: %+v, was %v", i, got, ids[i])
				}
			}
			text := sealer.Seal(fsm.Token{Sort: fsm.Lease, Queue: lease.ID.Queue, Message: lease.ID.Message, Moves: lease.Moves})
			now, _ := n.Sealer()
			if _, err := now.Open(fsm.Lease, text); err == nil {
				t.Error("a lease of the old cluster is one of the new")
			}

			// The others are the old cluster, and no part of the new one.
			for _, other := range lost {
				c.start(other)
			}
			c.leader(survivor)
			retryUntilKnown(t, c.nodes[lost[0]], keyed("q", "of the old cluster", ""))
			if r := mustDo(t, n, keyed("q", "of the old cluster", "")); r.Code != fsm.CodeOK {
				t.Errorf("the new cluster knows what was sent to the old one: %+v", r)
			}
			if !slices.Equal(n.members(), []raftID{n.self}) {
				t.Errorf("members of the new cluster: %v", n.members())
			}
			for _, other := range lost {
				c.stop(other)
				c.empty(other)
			}
			for _, other := range lost {
				c.start(other)
			}
			c.votersAre(c.ids()...)
			for _, other := range lost {
				ready(t, c.nodes[other])
			}
			c.settled()
		})
	}
}

func TestExamineRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	makeQueue(t, c.nodes["a"], "q")
	dir := filepath.Join(c.dir, "a")
	refused := func(what, dir, want string) {
		t.Helper()
		if r, err := Examine(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	refused("a node that runs", dir, "stop the node first")
	c.stop("a")
	refused("nothing", filepath.Join(c.dir, "nothing"), "not a directory")

	fresh := t.TempDir()
	cfg := c.config("b")
	cfg.DataDir, cfg.Discovery, cfg.Expect = fresh, NewHub().Discovery(), 2
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	refused("a node of no cluster", fresh, "had not received anything")

	r := examined(t, dir)
	if err := os.MkdirAll(filepath.Join(c.dir, "full", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recover(filepath.Join(c.dir, "full")); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a directory that is not empty: %v", err)
	}
	r.Close()
	if err := os.Truncate(filepath.Join(dir, identityFile), 3); err != nil {
		t.Fatal(err)
	}
	refused("damage", dir, "damaged")
	if _, err := os.Stat(filepath.Join(c.dir, "full.tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was left behind: %v", err)
	}
}
