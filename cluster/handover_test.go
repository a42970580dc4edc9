package cluster

import (
	"context"
	"testing"
)

func transferError(t *testing.T, at *Node, to string) error {
	t.Helper()
	_, err := at.Transfer(within(t), to)
	return err
}

// TestTransfer moves the lead to each node, asked at each, while others send.
func TestTransfer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	stop := load(t, c.others())
	for i, to := range []string{"b", "c", "a", "a", "c"} {
		at := c.nodes[c.names[i%3]]
		leader, err := at.Transfer(within(t), to)
		if err != nil || leader != to || c.nodes[to].office.Load() == nil {
			t.Fatalf("to %s, asked at %s: %q leads, %v", to, name(at), leader, err)
		}
		eventually(t, "all know who leads", func() bool { return at.leaderID().node() == to })
	}
	leader, err := c.nodes["a"].Transfer(within(t), "")
	if err != nil || leader == "c" || c.nodes[leader].office.Load() == nil {
		t.Errorf("to anybody: %q leads, %v", leader, err)
	}
	sent := stop()
	if s := stats(t, c.nodes["b"], "q"); s.Total != uint64(sent) {
		t.Errorf("%d messages, %d were sent", s.Total, sent)
	}
	c.settled()
}

func TestTransferRefusals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	leader := c.leader()
	dead := c.otherNames(name(leader))[0]
	c.stop(dead)
	at := c.nodes[c.otherNames(name(leader))[1]]
	refusedWith(t, "nobody of that name", transferError(t, at, "nobody"), RefusedNotFound)
	eventually(t, "it is missed", func() bool { return len(leader.Missing()) == 1 })
	refusedWith(t, "a dead node", transferError(t, at, dead), RefusedUnreachable)
	if leader.office.Load() == nil {
		t.Error("a refused transfer has moved the lead")
	}
	servers := []memberView{{id: "a/1", voter: true, alive: true, behind: true}}
	refusedWith(t, "one that is behind", transferRefusal(servers, "a/1"), RefusedBehind)
	refusedWith(t, "one that has left", transferRefusal(servers, "b/1"), RefusedNotFound)
}

// TestAskedWithoutALeader: what nobody can carry out is refused for good.
func TestAskedWithoutALeader(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	alone := c.leader()
	for _, other := range c.otherNames(name(alone)) {
		c.stop(other)
	}
	eventually(t, "it leads no longer", func() bool { return alone.office.Load() == nil })
	ctx, cancel := context.WithTimeout(t.Context(), alone.cfg.tuning.heartbeat)
	defer cancel()
	if err := alone.Remove(ctx, c.otherNames(name(alone))[0], ""); err != errNotLeader {
		t.Errorf("remove: %v", err)
	}
	if _, err := alone.Transfer(ctx, ""); err != errNotLeader {
		t.Errorf("transfer: %v", err)
	}
}
