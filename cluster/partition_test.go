package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestPartitionedLeader cuts the leader off. It can confirm nothing any more;
// the others go on; when it comes back nothing is lost or doubled.
func TestPartitionedLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	mustDo(t, old, keyed("q", "before", ""))

	c.fabric.isolate(name(old), c.otherNames(name(old))...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := keyed("q", "during", "")
	if r, err := old.Do(ctx, &cmd); !errors.Is(err, fsm.ErrUnknown) && !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("a leader without a majority answered %+v, %v", r, err)
	}
	readCtx, cancelRead := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancelRead()
	if a, err := old.Read(readCtx, fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "q"}); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("a leader without a majority read %+v, %v", a, err)
	}
	next := c.leader(name(old))
	if next == old {
		t.Fatal("no new leader")
	}
	if r := mustDo(t, next, keyed("q", "during", "")); r.Code != fsm.CodeOK {
		t.Errorf("send at the new leader: %+v", r)
	}
	c.fabric.heal()
	c.leader()
	for _, k := range []string{"before", "during"} {
		if r := mustDo(t, old, keyed("q", k, "")); r.Code != fsm.CodeDuplicate {
			t.Errorf("retry of %q at the old leader: %+v", k, r)
		}
	}
	if s := stats(t, old, "q"); s.Total != 2 {
		t.Errorf("%d messages, want 2", s.Total)
	}
	c.settled()
}

// TestLeadershipLostInFlight loses the lead while keyed sends are in flight:
// their outcome is unknown, no key stays in flight, and retries make one message
// of each.
func TestLeadershipLostInFlight(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	others := c.otherNames(name(old))
	for _, o := range others {
		c.fabric.cut(o, name(old)) // entries get out, acknowledgements do not come back
	}
	const sends = 8
	errs := make(chan error, sends)
	for i := range sends {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience/2)
			defer cancel()
			cmd := keyed("q", key(i), "x")
			_, err := old.attempt(ctx, &cmd)
			errs <- err
		}()
	}
	for range sends {
		if err := <-errs; !errors.Is(err, fsm.ErrUnknown) && !errors.Is(err, fsm.ErrNotApplied) {
			t.Errorf("in flight when the lead was lost: %v", err)
		}
	}
	c.leader(name(old))
	eventually(t, "no key is in flight at the old leader", func() bool {
		old.batcher.mu.Lock()
		defer old.batcher.mu.Unlock()
		return len(old.batcher.keys.keys) == 0 && len(old.batcher.queue) == 0
	})
	c.fabric.heal()
	c.leader()
	for i := range sends {
		if r := mustDo(t, old, keyed("q", key(i), "x")); r.Code != fsm.CodeOK && r.Code != fsm.CodeDuplicate {
			t.Errorf("retry %d: %+v", i, r)
		}
	}
	if s := stats(t, old, "q"); s.Total != sends {
		t.Errorf("%d messages, want %d", s.Total, sends)
	}
	c.settled()
}

// TestForwardOverABrokenLink breaks the link to the leader after a command was
// written to it: the outcome is unknown, and a retry does not double it.
func TestForwardOverABrokenLink(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	follower := c.nodes[c.otherNames(name(leader))[0]]
	c.fabric.cut(name(leader), name(follower)) // the answer does not come
	cmd := keyed("q", "k", "")
	if r, err := follower.attempt(within(t), &cmd); !errors.Is(err, fsm.ErrUnknown) {
		t.Errorf("answer over a cut link: %+v, %v", r, err)
	}
	c.fabric.heal()
	c.leader()
	if r := mustDo(t, follower, keyed("q", "k", "")); r.Code != fsm.CodeDuplicate && r.Code != fsm.CodeOK {
		t.Errorf("retry: %+v", r)
	}
	if s := stats(t, follower, "q"); s.Total != 1 {
		t.Errorf("%d messages, want 1", s.Total)
	}
}

func TestWithoutAMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.leaderWait = 200 * time.Millisecond })
	makeQueue(t, c.nodes["a"], "q")
	c.stop("b")
	c.stop("c")
	n := c.nodes["a"]
	eventually(t, "the node alone knows no leader", func() bool { return n.leaderID() == "" })
	cmd := keyed("q", "k", "")
	if _, err := n.Do(within(t), &cmd); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("send without a leader: %v", err)
	}
	if _, err := n.Read(within(t), fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "q"}); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("read without a leader: %v", err)
	}
	if n.Ready() == nil {
		t.Error("ready without a leader")
	}
	c.start("b")
	c.leader()
	if r := mustDo(t, n, keyed("q", "k", "")); r.Code != fsm.CodeOK {
		t.Errorf("what was refused left a trace: %+v", r)
	}
}

// TestSurvivorsGoOn stops the leader without a word, as a crash does.
func TestSurvivorsGoOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	c.fabric.isolate(name(old), c.otherNames(name(old))...)
	for i, n := range c.others(name(old)) {
		retryUntilKnown(t, n, keyed("q", key(i), ""))
	}
	if s := stats(t, c.others(name(old))[0], "q"); s.Total != 2 {
		t.Errorf("%d messages, want 2", s.Total)
	}
}

// retryUntilKnown sends as a careful client does.
func retryUntilKnown(t *testing.T, n *Node, cmd fsm.Command) fsm.Result {
	t.Helper()
	for ctx := within(t); ; {
		r, err := n.Do(ctx, &cmd)
		if err == nil && (r.Code == fsm.CodeOK || r.Code == fsm.CodeDuplicate) {
			return r
		}
		if ctx.Err() != nil || (err != nil && !errors.Is(err, fsm.ErrUnknown)) || (err == nil && r.Code != fsm.CodeDedupInFlight) {
			t.Fatalf("%s: %+v, %v", name(n), r, err)
		}
	}
}
