package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
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
	namesake := func(change func(*Peer)) Peer {
		return peer("a", func(p *Peer) { p.InstanceID = strings.Repeat("f", 16); change(p) })
	}
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
		{"a namesake", []Peer{b, namesake(func(*Peer) {})}, false, true},
		{"founded by the others", []Peer{peer("b", founded), peer("c", founded)}, true, false},
		{"founded by one, the other is still waiting", []Peer{peer("b", founded), c}, true, false},
		{"founded by one, the other is away", []Peer{peer("b", founded)}, false, false},
		{"a foreign cluster", []Peer{peer("b", foreign), peer("c", foreign)}, false, false},
		{"a cluster that had a namesake", []Peer{peer("b", foreign), namesake(foreign)}, false, false},
		{"a cluster and others that wait", []Peer{peer("b", foreign), c, peer("d", nil)}, false, false},
		{"two clusters", []Peer{peer("b", foreign), peer("c", founded)}, false, true},
		{"founded, and somebody else is waiting", []Peer{peer("b", founded), c, peer("d", nil)}, true, false},
	}
	for _, tt := range tests {
		v := judge(a, tt.others)
		if (len(v.founders) > 0) != tt.found || v.warn != tt.warn || (!tt.found && v.why == "" && v.join == "") {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if seen := len(tt.others) > 0 && tt.others[0].ClusterID != ""; (v.join != "") != (seen && !tt.found && !tt.warn) {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if tt.found && !slices.Equal(v.founders, all) {
			t.Errorf("%s: founders %v", tt.name, v.founders)
		}
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
