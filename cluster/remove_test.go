package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestRemovalRefusal(t *testing.T) {
	voter := func(id raftID) memberView { return memberView{id: id, voter: true, alive: true} }
	dead := func(id raftID) memberView { return memberView{id: id, voter: true, gone: true} }
	silent := func(id raftID) memberView { return memberView{id: id, voter: true} }
	behind := func(id raftID) memberView { return memberView{id: id, voter: true, alive: true, behind: true} }
	fresh := func(id raftID) memberView { return memberView{id: id, alive: true} }
	for _, tt := range []struct {
		name    string
		servers []memberView
		id      raftID
		want    RefusalReason
	}{
		{"one of three", []memberView{voter("a/1"), voter("b/1"), voter("c/1")}, "c/1", ""},
		{"the dead one of three", []memberView{voter("a/1"), voter("b/1"), dead("c/1")}, "c/1", ""},
		{"a living one beside a dead one", []memberView{voter("a/1"), voter("b/1"), dead("c/1")}, "b/1", RefusedNoMajority},
		{"a living one beside a silent one", []memberView{voter("a/1"), voter("b/1"), silent("c/1")}, "b/1", RefusedNoMajority},
		{"a living one beside one that catches up", []memberView{voter("a/1"), voter("b/1"), behind("c/1")}, "b/1", RefusedNoMajority},
		{"one that catches up", []memberView{voter("a/1"), voter("b/1"), behind("c/1")}, "c/1", ""},
		{"one of two", []memberView{voter("a/1"), voter("b/1")}, "a/1", ""},
		{"the living one of two", []memberView{voter("a/1"), dead("b/1")}, "a/1", RefusedNoMajority},
		{"the dead one of two", []memberView{voter("a/1"), dead("b/1")}, "b/1", ""},
		{"the last one", []memberView{voter("a/1")}, "a/1", RefusedLastVoter},
		{"the last one beside one without a vote", []memberView{voter("a/1"), fresh("b/1")}, "a/1", RefusedLastVoter},
		{"one without a vote", []memberView{voter("a/1"), dead("b/1"), fresh("c/1")}, "c/1", ""},
		{"one of five, two dead", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), dead("d/1"), dead("e/1")}, "c/1", RefusedNoMajority},
		{"a dead one of five", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), dead("d/1"), dead("e/1")}, "d/1", ""},
		{"one of four", []memberView{voter("a/1"), voter("b/1"), voter("c/1"), dead("d/1")}, "c/1", ""},
	} {
		r := removalRefusal(tt.servers, tt.id)
		switch {
		case (r == nil) != (tt.want == ""):
			t.Errorf("%s: %v", tt.name, r)
		case r != nil && (r.Reason != tt.want || r.Node != tt.id.node() || !strings.HasSuffix(r.Text, ".")):
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

// refusedWith fails the test unless err is a refusal for that reason.
func refusedWith(t *testing.T, what string, err error, reason RefusalReason) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		t.Errorf("%s: %v, want %s", what, err, reason)
	}
}

func removeNode(t *testing.T, at *Node, node string) {
	t.Helper()
	if err := at.Remove(within(t), node, ""); err != nil {
		t.Fatalf("remove %s at %s: %v", node, name(at), err)
	}
}

// endsRemoved waits until a node has been told that it was removed, and stops it.
func (c *testCluster) endsRemoved(node string) {
	c.t.Helper()
	n := c.nodes[node]
	select {
	case err := <-n.Failed():
		if !errors.Is(err, ErrRemoved) {
			c.t.Errorf("%s ended with %v", node, err)
		}
	case <-time.After(patience):
		c.t.Fatalf("%s was not told that it was removed", node)
	}
	if err := n.Ready(); !errors.Is(err, ErrRemoved) {
		c.t.Errorf("%s is ready: %v", node, err)
	}
	cmd := keyed("q", "late", "")
	if _, err := n.Do(within(c.t), &cmd); !errors.Is(err, fsm.ErrClosed) {
		c.t.Errorf("a removed node answered %v", err)
	}
	c.stop(node)
	if n, err := Start(c.t.Context(), c.config(node)); !errors.Is(err, ErrRemoved) {
		c.t.Errorf("a removed node started again: %v, %v", n, err)
	}
}

// TestRemove takes each of three nodes out in turn, the leader too, asked at each
// of the others and at itself, and takes it in again with an empty directory.
func TestRemove(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	for i, who := range []string{"follower", "leader", "itself", "leading itself"} {
		leader := name(c.leader())
		victim := leader
		if who == "follower" || who == "itself" {
			victim = c.otherNames(leader)[0]
		}
		at := victim
		if who == "follower" || who == "leader" {
			at = c.otherNames(victim)[i%2]
		}
		mustDo(t, c.nodes[at], keyed("q", key(i), "x"))
		removeNode(t, c.nodes[at], victim)
		c.endsRemoved(victim)
		c.votersAre(c.ids()...)
		c.leader(victim)
		refusedWith(t, "a second removal", c.nodes[c.otherNames(victim)[0]].Remove(within(t), victim, ""), RefusedNotFound)
		c.empty(victim)
		n := c.start(victim)
		c.votersAre(c.ids()...)
		ready(t, n)
		for j := range i + 1 {
			if r := mustDo(t, n, keyed("q", key(j), "")); r.Code != fsm.CodeDuplicate {
				t.Fatalf("%s: send %d: %+v", who, j, r)
			}
		}
		c.settled()
	}
}

// TestRemoveDeadNode removes a node that is down. It comes back with its old
// directory, changes nothing and is told; then it comes back as a new one.
func TestRemoveDeadNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	victim := name(c.leader())
	c.stop(victim)
	rest := c.otherNames(victim)
	leader := name(c.leader(victim))
	other := rest[0]
	if other == leader {
		other = rest[1]
	}
	dead := c.nodes[leader]
	eventually(t, "it is missed", func() bool { return slices.Equal(dead.Missing(), []string{victim}) })
	refusedWith(t, "no majority would be left", c.nodes[leader].Remove(within(t), other, ""), RefusedNoMajority)
	refusedWith(t, "no majority would be left, of itself", c.nodes[other].Remove(within(t), leader, ""), RefusedNoMajority)
	if c.nodes[leader].office.Load() == nil {
		t.Error("a refused removal has moved the lead")
	}
	removeNode(t, c.nodes[other], victim)
	c.votersAre(c.ids()...)
	eventually(t, "nobody is missed", func() bool { return len(dead.Missing()) == 0 })
	term := c.leader(victim).Status().Term
	c.start(victim)
	c.endsRemoved(victim)
	if got := c.leader(victim).Status().Term; got != term {
		t.Errorf("term %d, was %d: the removed node disturbs the others", got, term)
	}
	c.empty(victim)
	n := c.start(victim)
	c.votersAre(c.ids()...)
	ready(t, n)
	mustDo(t, n, keyed("q", "k", ""))
	c.settled()
}

// TestRemoveToTheLast shrinks a cluster to one node, which cannot be removed.
func TestRemoveToTheLast(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	for range 2 {
		leader := c.leader()
		var victim string
		for _, n := range c.others(name(leader)) {
			victim = name(n)
		}
		removeNode(t, leader, victim)
		c.endsRemoved(victim)
		c.votersAre(c.ids()...)
		mustDo(t, leader, keyed("q", "without-"+victim, ""))
	}
	last := c.leader()
	refusedWith(t, "the last one", last.Remove(within(t), name(last), ""), RefusedLastVoter)
	refusedWith(t, "nobody to lead", transferError(t, last, ""), RefusedNoSuccessor)
	refusedWith(t, "nobody of that name", last.Remove(within(t), "nobody", ""), RefusedNotFound)
	refusedWith(t, "another instance", last.Remove(within(t), name(last), "0123456789abcdef"), RefusedNotFound)
	mustDo(t, last, keyed("q", "alone", ""))
}

// TestRemovalsAtOnce asks for the removal of two of five nodes at the same time,
// each at two nodes.
func TestRemovalsAtOnce(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 5, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := name(c.leader())
	gone := []string{leader, c.otherNames(leader)[0]}
	stay := c.others(gone...)
	var wg sync.WaitGroup
	for i, victim := range gone {
		for _, at := range stay[i : i+2] {
			wg.Go(func() {
				var r *Refusal
				err := at.Remove(within(t), victim, "")
				if err != nil && !(errors.As(err, &r) && r.Reason == RefusedNotFound) { // the other was first
					t.Errorf("remove %s at %s: %v", victim, name(at), err)
				}
			})
		}
	}
	wg.Wait()
	for _, victim := range gone {
		c.endsRemoved(victim)
	}
	c.votersAre(c.ids()...)
	retryUntilKnown(t, stay[0], keyed("q", "k", ""))
	c.settled()
}

// TestRemoveOneWithoutAVote removes a node before it has got its vote.
func TestRemoveOneWithoutAVote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.levelFor = time.Hour })
	n := c.add("d")
	eventually(t, "it is a member", func() bool { return n.settled.Load() && slices.Contains(c.nodes["a"].members(), n.self) })
	refusedWith(t, "it cannot lead", transferError(t, c.nodes["a"], "d"), RefusedNotAVoter)
	removeNode(t, c.nodes["b"], "d")
	c.endsRemoved("d")
	c.votersAre(c.ids()...)
	time.Sleep(2 * applyAgain) // it does not seem to have asked again
	c.votersAre(c.ids()...)
}

// TestMembershipThatWasUndone: a leader that is cut off adds a node, which gets the
// entry and nobody else does. The entry is undone, and the node still joins.
func TestMembershipThatWasUndone(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	cut := c.leader()
	rest := c.otherNames(name(cut))
	for _, n := range c.others() {
		n.changing <- struct{}{} // nobody is added yet
	}
	n := c.add("d")
	eventually(t, "the new node waits to be added", func() bool { return n.raft.Load() != nil && len(cut.applicants.now()) > 0 })
	index := cut.agreed.committed.Load().index
	c.fabric.isolate(name(cut), rest...)
	c.fabric.isolate("d", rest...)
	done := make(chan error, 1)
	go func() { done <- cut.changeMembers(within(t), change{changeAdd, n.self}, index) }()
	eventually(t, "the new node has the entry", func() bool { return slices.Contains(n.members(), n.self) })
	if err := <-done; !errors.Is(err, fsm.ErrUnknown) {
		t.Errorf("the change ended with %v", err)
	}
	c.leader(name(cut), "d")
	time.Sleep(2 * applyAgain)
	if n.settled.Load() {
		t.Error("the new node takes itself for a member")
	}
	c.fabric.heal()
	for _, n := range c.others("d") {
		<-n.changing
	}
	c.votersAre(c.ids()...)
	ready(t, n)
	c.settled()
}

// TestChangeNamesItsConfiguration: a change that was decided on a configuration
// which is not the latest any more is not made.
func TestChangeNamesItsConfiguration(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.snapshotBytes = 64 << 10 })
	leader := c.leader()
	index := leader.agreed.committed.Load().index
	c.add("d")
	c.votersAre(c.ids()...)
	leader = c.leader()
	if now := leader.agreed.committed.Load().index; now <= index {
		t.Fatalf("the configuration has index %d, had %d", now, index)
	}
	victim := c.nodes[c.otherNames(name(leader))[0]].self
	if err := leader.changeMembers(within(t), change{changeRemove, victim}, index); err == nil {
		t.Error("it was changed")
	}
	c.votersAre(c.ids()...)
	// A node that is behind a snapshot learns the configuration from it.
	late := c.otherNames(name(leader))[0]
	c.stop(late)
	makeQueue(t, leader, "q")
	for i := range 60 {
		mustDo(t, leader, keyed("q", key(i), strings.Repeat("x", 4000)))
	}
	c.start(late)
	for _, n := range c.others() {
		eventually(t, "all know the same configuration", func() bool {
			return n.agreed.committed.Load().index == leader.agreed.committed.Load().index
		})
	}
}

// load sends through some nodes until stopped. Every outcome must be known.
func load(t *testing.T, nodes []*Node) (stop func() (sent int64)) {
	var sent atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w, n := range nodes {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				cmd := keyed("q", name(n)+key(w*100000+i), "")
				r, err := n.Do(context.Background(), &cmd)
				if err != nil || r.Code != fsm.CodeOK {
					t.Errorf("send at %s: %+v, %v", name(n), r, err)
					return
				}
				sent.Add(1)
			}
		})
	}
	eventually(t, "sends flow", func() bool { return sent.Load() > 20 })
	return func() int64 {
		after := sent.Load()
		eventually(t, "sends flow again", func() bool { return sent.Load() > after+20 })
		close(done)
		wg.Wait()
		return sent.Load()
	}
}

// TestRemoveLeaderUnderLoad: nobody gets an unknown outcome, and nothing is lost.
func TestRemoveLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	victim := name(c.leader())
	rest := c.others(victim)
	stop := load(t, rest)
	removeNode(t, rest[0], victim)
	c.endsRemoved(victim)
	sent := stop()
	c.votersAre(c.ids()...)
	if s := stats(t, rest[1], "q"); s.Total != uint64(sent) {
		t.Errorf("%d messages, %d were sent", s.Total, sent)
	}
}
