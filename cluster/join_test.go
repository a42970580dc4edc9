package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestNextChange(t *testing.T) {
	voter := func(id raftID) memberView { return memberView{id: id, voter: true, alive: true} }
	dead := func(id raftID) memberView { return memberView{id: id, voter: true, gone: true} }
	silent := func(id raftID) memberView { return memberView{id: id, voter: true} }
	fresh := func(id raftID) memberView { return memberView{id: id, joining: true, alive: true} }
	behind := func(id raftID) memberView { return memberView{id: id, alive: true} }
	level := func(id raftID) memberView { return memberView{id: id, alive: true, caughtUp: true} }
	lost := func(id raftID) memberView { return memberView{id: id, gone: true} }
	for _, tt := range []struct {
		name    string
		servers []memberView
		want    change
	}{
		{"nothing to do", []memberView{voter("a/1"), voter("b/1"), dead("c/1")}, change{}},
		{"a new node asks", []memberView{voter("a/1"), voter("b/1"), fresh("d/1")}, change{changeAdd, "d/1"}},
		{"a new node lags", []memberView{voter("a/1"), voter("b/1"), behind("d/1")}, change{}},
		{"a new node keeps up", []memberView{voter("a/1"), voter("b/1"), level("d/1")}, change{changePromote, "d/1"}},
		{"a new node went away again", []memberView{voter("a/1"), voter("b/1"), lost("d/1")}, change{}},

		{"a wiped node asks", []memberView{voter("a/1"), voter("b/1"), dead("c/1"), fresh("c/2")}, change{changeAdd, "c/2"}},
		{"a wiped node lags", []memberView{voter("a/1"), voter("b/1"), dead("c/1"), behind("c/2")}, change{}},
		{"a wiped node keeps up", []memberView{voter("a/1"), voter("b/1"), dead("c/1"), level("c/2")}, change{changeRemove, "c/1"}},
		{"its old self is removed", []memberView{voter("a/1"), voter("b/1"), level("c/2")}, change{changePromote, "c/2"}},
		{"wiped twice", []memberView{voter("a/1"), voter("b/1"), dead("c/1"), lost("c/2"), fresh("c/3")}, change{changeRemove, "c/2"}},

		{"its namesake lives", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), fresh("c/2")}, change{}},
		{"its namesake is silent", []memberView{voter("a/1"), voter("b/1"), silent("c/1"), fresh("c/2")}, change{}},
		{"its namesake came back", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), level("c/2")}, change{}},
		{"its namesake leads", []memberView{voter("a/1"), level("a/2")}, change{}},
		{"two of a name ask", []memberView{voter("a/1"), behind("b/1"), fresh("b/2")}, change{}},

		{"too few would be left", []memberView{voter("a/1"), silent("b/1"), dead("c/1"), level("c/2")}, change{}},
		{"enough are left of five", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), dead("d/1"), dead("e/1"), level("e/2")}, change{changeRemove, "e/1"}},
		{"too few are left of five", []memberView{voter("a/1"), voter("b/1"), silent("c/1"), silent("d/1"), dead("e/1"), level("e/2")}, change{}},
		{"one is in the way, the other is not", []memberView{voter("a/1"), voter("b/1"), fresh("b/2"), fresh("d/1")}, change{changeAdd, "d/1"}},
	} {
		if got := nextChange(tt.servers); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// add starts a node that the cluster does not know.
func (c *testCluster) add(name string) *Node {
	c.t.Helper()
	c.names = append(c.names, name)
	c.skew[name] = new(atomic.Int64)
	return c.start(name)
}

// wipe stops a node and empties its directory.
func (c *testCluster) wipe(name string) {
	c.t.Helper()
	c.stop(name)
	c.empty(name)
}

// empty empties the directory of a node that does not run.
func (c *testCluster) empty(name string) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

// votersAre waits until exactly these nodes vote, as all running nodes have it.
func (c *testCluster) votersAre(want ...raftID) {
	c.t.Helper()
	slices.Sort(want)
	eventually(c.t, "the voters are as expected, and there is nobody else", func() bool {
		for _, n := range c.nodes {
			if n.raft.Load() == nil {
				return false
			}
			got, voters := n.members(), append(n.voters(), n.self)
			slices.Sort(got)
			slices.Sort(voters)
			if !slices.Equal(got, want) || !slices.Equal(voters, want) {
				return false
			}
		}
		return true
	})
}

func (c *testCluster) ids() (ids []raftID) {
	for _, n := range c.nodes {
		ids = append(ids, n.self)
	}
	return ids
}

func ready(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, name(n)+" is ready", func() bool { return n.Ready() == nil })
}

// TestNewNodeJoins starts a fourth node: it gets everything, then a vote, and the
// cluster gets along with it and without another.
func TestNewNodeJoins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.snapshotBytes = 64 << 10 })
	makeQueue(t, c.nodes["a"], "q")
	for i := range 50 {
		mustDo(t, c.nodes["b"], keyed("q", key(i), strings.Repeat("x", 4000)))
	}
	n := c.add("d")
	c.votersAre(c.ids()...)
	ready(t, n)
	c.settled()
	c.stop(name(c.leader()))
	for i := range 60 {
		want := fsm.CodeDuplicate
		if i >= 50 {
			want = fsm.CodeOK
		}
		if r := mustDo(t, n, keyed("q", key(i), "")); r.Code != want {
			t.Fatalf("send %d: %+v", i, r)
		}
	}
	// It is a member for good.
	c.stop("d")
	n = c.start("d")
	ready(t, n)
	if id := n.store.id; id.Joining || !id.Bootstrapped {
		t.Errorf("its directory says %+v", id)
	}
	c.settled()
}

// TestJoiningIsResumed stops a node between taking on the cluster's id and being
// added.
func TestJoiningIsResumed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	if err := os.Mkdir(filepath.Join(c.dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	id, err := loadIdentity(filepath.Join(c.dir, "d"), "d")
	if err != nil {
		t.Fatal(err)
	}
	id.ClusterID, id.Joining = c.nodes["a"].clusterID(), true
	if err := id.save(filepath.Join(c.dir, "d")); err != nil {
		t.Fatal(err)
	}
	n := c.add("d")
	c.votersAre(c.ids()...)
	ready(t, n)
	c.settled()
}

// TestWipedNodeIsReplaced empties the directory of a node while others send. It
// is taken in again under its name, nothing is lost, and its old self is gone.
func TestWipedNodeIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	victim := c.otherNames(name(c.leader()))[0]
	old := c.nodes[victim].self
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	confirmed := make(map[string]fsm.MessageID)
	for w, n := range c.others(victim) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := key(w*1_000_000 + i)
				if id, ok := sendUntilKnown(t, n, k); ok {
					mu.Lock()
					confirmed[k] = id
					mu.Unlock()
				}
			}
		})
	}
	c.wipe(victim)
	n := c.start(victim)
	if n.self == old || n.self.node() != old.node() {
		t.Errorf("the emptied node is %s, was %s", n.self, old)
	}
	c.votersAre(c.ids()...)
	ready(t, n)
	close(stop)
	wg.Wait()
	c.settled()
	if s := stats(t, n, "q"); s.Total != uint64(len(confirmed)) || s.Total == 0 {
		t.Errorf("%d messages, %d were confirmed", s.Total, len(confirmed))
	}
	for k, id := range confirmed {
		if r := mustDo(t, n, keyed("q", k, "")); r.Code != fsm.CodeDuplicate || r.ID != id {
			t.Fatalf("%s: %+v, was %v", k, r, id)
		}
	}
	// The vote of the new one counts: with it, another can go.
	c.stop(c.otherNames(victim)[0])
	retryUntilKnown(t, n, keyed("q", "last", ""))
}

// TestSecondNodeOfAName starts a node under the name of a living one.
func TestSecondNodeOfAName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	before := c.ids()
	cfg := c.config("b")
	cfg.DataDir = t.TempDir()
	second, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Shutdown(context.WithoutCancel(t.Context()))
	eventually(t, "it is told why", func() bool {
		err := second.Ready()
		return err != nil && strings.Contains(err.Error(), "is alive")
	})
	time.Sleep(2 * c.nodes["a"].cfg.tuning.goneAfter) // nothing happens, however long it waits
	c.votersAre(before...)
	if second.clusterID() != "" {
		t.Error("it took the cluster's id on")
	}
	mustDo(t, c.nodes["b"], keyed("q", "k", ""))
}

// TestReplacedNodeComesBack cuts a node off, replaces it, and lets it back in: it
// changes nothing and says that it has been replaced.
func TestReplacedNodeComesBack(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	victim := c.otherNames(name(c.leader()))[0]
	old := c.nodes[victim]
	rest := c.otherNames(victim)
	c.fabric.isolate(victim, rest...)
	cfg := c.config(victim)
	cfg.DataDir, cfg.Network = t.TempDir(), c.fabric.node("new")
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.nodes[victim] = n
	c.votersAre(c.ids()...)
	retryUntilKnown(t, n, keyed("q", "k", ""))
	term := n.Status().Term
	c.fabric.heal()
	eventually(t, "the old one says that it was replaced", func() bool { return errors.Is(old.Ready(), ErrRemoved) })
	c.votersAre(c.ids()...)
	if got := n.Status().Term; got != term {
		t.Errorf("term %d, was %d: the replaced node disturbs the others", got, term)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := old.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// TestLeaderChangesWhileANodeJoins moves the lead on at every step of a
// replacement.
func TestLeaderChangesWhileANodeJoins(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	victim := "c"
	lead(t, c, "a")
	c.wipe(victim)
	n := c.start(victim)
	rest := c.others(victim)
	seen := 0
	for steps := 0; ; steps++ {
		var now int
		eventually(t, "the next step", func() bool {
			ms, voters := c.leader(victim).members(), len(c.leader(victim).voters())+1
			now = len(ms)*10 + voters
			return now != seen || now == 33 && slices.Contains(ms, n.self)
		})
		if seen = now; now == 33 && slices.Contains(c.leader(victim).members(), n.self) {
			break
		}
		if steps > 20 {
			t.Fatal("it goes round in circles")
		}
		other := rest[steps%2]
		_ = other.raft.Load().LeadershipTransfer().Error() // one of the two leads
	}
	c.votersAre(c.ids()...)
	ready(t, n)
	c.settled()
}

// TestWipedNodeStaysOut empties two of three directories: the one that is left
// is no majority, and nothing new is formed.
func TestWipedNodeStaysOut(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.leaderWait = 100 * time.Millisecond })
	makeQueue(t, c.nodes["a"], "q")
	kept := c.leader()
	members := kept.members()
	wiped := c.otherNames(name(kept))
	for _, w := range wiped {
		c.wipe(w)
	}
	for _, w := range wiped {
		c.start(w)
	}
	for _, w := range wiped {
		n := c.nodes[w]
		eventually(t, "it says that the cluster has no majority", func() bool {
			err := n.Ready()
			return err != nil && strings.Contains(err.Error(), "has no leader") && strings.Contains(err.Error(), "1 of its 3 voters")
		})
	}
	time.Sleep(2 * kept.cfg.tuning.goneAfter)
	for _, w := range wiped {
		n := c.nodes[w]
		if n.raft.Load() != nil || n.clusterID() != "" {
			t.Errorf("%s has formed something", w)
		}
		cmd := keyed("q", "k", "")
		if _, err := n.Do(within(t), &cmd); !errors.Is(err, fsm.ErrNotApplied) {
			t.Errorf("%s answered %v", w, err)
		}
	}
	if !slices.Equal(kept.members(), members) || kept.office.Load() != nil {
		t.Errorf("members: %v, were %v", kept.members(), members)
	}
}
