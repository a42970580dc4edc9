package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestLaggingFollowerInstallsASnapshot leaves a node behind until its entries
// are gone from the logs of the others.
func TestLaggingFollowerInstallsASnapshot(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) {
		cfg.tuning.snapshotBytes, cfg.tuning.segment = 64<<10, 64<<10
	})
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	behind := c.otherNames(name(leader))[0]
	last := c.nodes[behind].Status().LastIndex
	c.stop(behind)
	payload := strings.Repeat("x", 2000)
	sent := 0
	eventually(t, "the log has been cut behind the follower", func() bool {
		for range 20 {
			mustDo(t, leader, keyed("q", key(sent), payload))
			sent++
		}
		first, err := leader.store.log.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		return first > last+1
	})
	back := c.start(behind)
	c.leader()
	c.settled()
	if s := stats(t, back, "q"); s.Total != uint64(sent) {
		t.Errorf("%d messages, want %d", s.Total, sent)
	}
	for i := range sent {
		if r := mustDo(t, back, keyed("q", key(i), "")); r.Code != fsm.CodeDuplicate {
			t.Fatalf("retry %d: %+v", i, r)
		}
	}
	// What it installed is good to start on.
	c.stop(behind)
	c.start(behind)
	c.leader()
	c.settled()
}

// TestSnapshotsBoundTheLog writes much more than is kept.
func TestSnapshotsBoundTheLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(_ string, cfg *Config) { cfg.SnapshotBytes = 128 << 10 })
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	handle := func(r fsm.Result) fsm.Token {
		return fsm.Token{Sort: fsm.Handle, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}
	}
	payload := strings.Repeat("x", 4000)
	eventually(t, "the log is cut twice", func() bool {
		r := mustDo(t, n, fsm.Command{Op: fsm.OpSend, Queue: "q", Payload: payload})
		mustDo(t, n, fsm.Command{Op: fsm.OpDiscard, Token: handle(r)})
		first, err := n.store.log.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		metas, err := n.store.snapshots.List()
		return err == nil && len(metas) == snapshotsKept && first > 1
	})
}

// TestDivergenceIsNoticed changes the state of one node behind raft's back.
func TestDivergenceIsNoticed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	c.settled()
	odd := c.nodes["b"]
	odd.replica.mu.Lock()
	odd.replica.m.Apply(odd.replica.m.AppliedIndex(), fsm.Batch{NowMs: odd.replica.m.NowMs() + 1})
	odd.replica.mu.Unlock()
	eventually(t, "somebody notices", func() bool {
		for _, n := range c.others() {
			if counterValue(t, n.metrics.divergences) > 0 {
				return true
			}
		}
		return false
	})
}

// TestLeaderWithABadClock hands over when its clock is off, forwards or back,
// while log time never goes back.
func TestLeaderWithABadClock(t *testing.T) {
	long(t)
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			c := newCluster(t, 3, nil)
			makeQueue(t, c.nodes["a"], "q")
			old := c.leader()
			before := old.Status().NowMs
			c.skew[name(old)].Store(int64(off))
			eventually(t, "another node leads", func() bool { return c.leader() != old })
			retryUntilKnown(t, old, keyed("q", "k", ""))
			if now := c.leader().Status().NowMs; now < before {
				t.Errorf("log time went from %d to %d", before, now)
			}
		})
	}
}
