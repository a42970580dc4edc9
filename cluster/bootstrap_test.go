package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func peer(id string, change func(*Peer)) Peer {
	p := Peer{NodeID: id, InstanceID: strings.Repeat(id, 16)[:16], Expect: 3, Version: protocolVersion}
	if change != nil {
		change(&p)
	}
	return p
}

func TestJudge(t *testing.T) {
	a, b, c := peer("a", nil), peer("b", nil), peer("c", nil)
	all := []raftID{a.raftID(), b.raftID(), c.raftID()}
	founded := func(p *Peer) { p.HasState, p.ClusterID = true, clusterIDOf(all) }
	foreign := func(p *Peer) { p.HasState, p.ClusterID = true, "0123456789abcdef" }
	tests := []struct {
		name   string
		others []Peer
		found  bool
		warn   bool
	}{
		{"alone", nil, false, false},
		{"two of three", []Peer{b}, false, false},
		{"three of three", []Peer{c, b}, true, false},
		{"one too many", []Peer{b, c, peer("d", nil)}, false, true},
		{"another expectation", []Peer{b, peer("c", func(p *Peer) { p.Expect = 5 })}, false, true},
		{"another version", []Peer{b, peer("c", func(p *Peer) { p.Version++ })}, false, true},
		{"a namesake", []Peer{b, peer("a", func(p *Peer) { p.InstanceID = strings.Repeat("f", 16) })}, false, true},
		{"founded by the others", []Peer{peer("b", founded), peer("c", founded)}, true, false},
		{"founded by one, the other is still waiting", []Peer{peer("b", founded), c}, true, false},
		{"founded by one, the other is away", []Peer{peer("b", founded)}, false, false},
		{"a foreign cluster", []Peer{peer("b", foreign), peer("c", foreign)}, false, true},
		{"two clusters", []Peer{peer("b", foreign), peer("c", founded)}, false, true},
		{"founded, and somebody else is waiting", []Peer{peer("b", founded), c, peer("d", nil)}, true, false},
	}
	for _, tt := range tests {
		v := judge(a, tt.others)
		if (len(v.founders) > 0) != tt.found || v.warn != tt.warn || (!tt.found && v.why == "") {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if tt.found && !slices.Equal(v.founders, all) {
			t.Errorf("%s: founders %v", tt.name, v.founders)
		}
	}
}

// TestWipedNodeStaysOut empties the directory of a node, which then is another
// one: it founds nothing, votes for nobody and serves nobody.
func TestWipedNodeStaysOut(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.leaderWait = 100 * time.Millisecond })
	makeQueue(t, c.nodes["a"], "q")
	out := c.otherNames(name(c.leader()))[0]
	before := c.nodes[out].self
	c.stop(out)
	if err := os.RemoveAll(filepath.Join(c.dir, out)); err != nil {
		t.Fatal(err)
	}
	n := c.start(out)
	if n.self == before || n.self.node() != before.node() {
		t.Fatalf("the emptied node is %s, was %s", n.self, before)
	}
	eventually(t, "the node says why it waits", func() bool {
		err := n.Ready()
		return err != nil && strings.Contains(err.Error(), "emptied")
	})
	cmd := keyed("q", "k", "")
	if _, err := n.Do(within(t), &cmd); !errors.Is(err, fsm.ErrNotApplied) {
		t.Errorf("it answered %v", err)
	}
	// With one more node gone, the wiped one must not make a majority.
	rest := c.otherNames(out)
	c.stop(rest[0])
	last := c.nodes[rest[1]]
	eventually(t, "the last node knows no leader", func() bool { return last.leaderID() == "" })
	if n.raft.Load() != nil {
		t.Error("the emptied node runs raft")
	}
	if got := last.Status().Voters; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("voters: %v", got)
	}
}

// TestFoundingIsResumed stops a founder between the decision and raft's start.
func TestFoundingIsResumed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, err := loadIdentity(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	id.Founders = []raftID{id.raftID()}
	id.ClusterID = clusterIDOf(id.Founders)
	if err := id.save(dir); err != nil {
		t.Fatal(err)
	}
	n, err := Start(t.Context(), alone(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Shutdown(context.WithoutCancel(t.Context()))
	makeQueue(t, n, "q")
	if n.clusterID() != id.ClusterID {
		t.Errorf("cluster %s, want %s", n.clusterID(), id.ClusterID)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := func() Config { return Config{NodeID: "a", DataDir: "d", PeerListen: ":0"} }
	for want, spoil := range map[string]func(*Config){
		"node id":        func(c *Config) { c.NodeID = "a/b" },
		"data directory": func(c *Config) { c.DataDir = "" },
		"peer port":      func(c *Config) { c.PeerListen = "" },
		"log store":      func(c *Config) { c.LogStore = "paper" },
		"expected":       func(c *Config) { c.Expect = 100 },
	} {
		c := good()
		spoil(&c)
		if err := c.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := good()
	if err := c.complete(); err != nil {
		t.Error(err)
	}
}
