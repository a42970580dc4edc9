package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// TestOverview asks each node, with all there and with fewer and fewer.
func TestOverview(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(name string, cfg *Config) { cfg.Version, cfg.API = "v-"+name, "[::]:80" })
	makeQueue(t, c.nodes["a"], "q")
	c.settled()
	leader := name(c.leader())
	for _, n := range c.others() {
		var o Overview
		eventually(t, "all is well", func() bool { o = n.Overview(t.Context()); return o.Well == 3 && level(o) })
		if !o.Healthy || o.MayFail != 1 || o.Voters != 3 || o.Leader != leader || o.SeenBy != leader || o.ClusterID != n.clusterID() || o.Term == 0 {
			t.Errorf("%s says %+v", name(n), o)
		}
		for i, m := range o.Members {
			want := RoleVoter
			if m.Name == leader {
				want = RoleLeader
			}
			if m.Name != c.names[i] || m.Instance != c.nodes[m.Name].self.instance() || m.Role != want || !m.Reachable || m.LastContactMs < 0 ||
				m.Version != "v-"+m.Name || m.PeerAddress != c.addressOf(m.Name) || m.APIAddress != "127.0.0.1:80" ||
				m.AppliedIndex == 0 || m.CommitIndex < m.AppliedIndex || len(m.StateHash) != 16 || m.Diverged {
				t.Errorf("%s says %+v", name(n), m)
			}
		}
	}

	dead := c.otherNames(leader)[0]
	c.stop(dead)
	left := c.nodes[c.otherNames(leader)[1]]
	var o Overview
	eventually(t, "one is missed", func() bool { o = left.Overview(t.Context()); return o.Well == 2 })
	if !o.Healthy || o.MayFail != 0 || o.Voters != 3 || len(o.Members) != 3 {
		t.Errorf("with one dead: %+v", o)
	}
	for _, m := range o.Members {
		if m.Reachable != (m.Name != dead) || (m.Name == dead && m.LastContactMs < 0) {
			t.Errorf("with one dead: %+v", m)
		}
	}

	c.stop(leader)
	eventually(t, "no majority is left", func() bool { o = left.Overview(t.Context()); return !o.Healthy && o.Leader == "" })
	if o.Voters != 3 || o.Well != 1 || o.MayFail != 0 || o.SeenBy != name(left) || len(o.Members) != 3 {
		t.Errorf("without a majority: %+v", o)
	}
	eventually(t, "both are missed", func() bool { return fmt.Sprint(left.Missing()) == fmt.Sprint(c.otherNames(name(left))) })
}

// level reports whether all members have told that they applied the same.
func level(o Overview) bool {
	for _, m := range o.Members {
		if m.AppliedIndex == 0 || m.AppliedIndex != o.Members[0].AppliedIndex {
			return false
		}
	}
	return true
}

// TestOverviewOfOneThatJoins: it is seen before it is a member, by itself too.
func TestOverviewOfOneThatJoins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.levelFor = patience / 10 })
	leader := c.leader()
	leader.changing <- struct{}{}
	n := c.add("d")
	role := func(at *Node) string {
		for _, m := range at.Overview(t.Context()).Members {
			if m.Name == "d" {
				return m.Role
			}
		}
		return ""
	}
	eventually(t, "the leader sees it", func() bool { return role(leader) == RoleJoining })
	if got := role(n); got != RoleJoining {
		t.Errorf("it takes itself for %q", got)
	}
	<-leader.changing
	eventually(t, "it is added", func() bool { return role(leader) == RoleNonVoter })
	c.votersAre(c.ids()...)
	eventually(t, "it has its vote", func() bool { return role(n) == RoleVoter })
	if o := n.Overview(t.Context()); o.Voters != 4 || o.MayFail != 1 {
		t.Errorf("%+v", o)
	}
	if s := fmt.Sprint(c.leader().Overview(t.Context())); strings.Contains(s, "joining") {
		t.Error(s)
	}
}
