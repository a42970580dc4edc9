package cluster

import (
	"testing"
	"time"
)

// startGossip runs discovery by itself.
func startGossip(t *testing.T, dir string, self Peer, join ...string) *gossip {
	t.Helper()
	g := newGossip(GossipConfig{Listen: "127.0.0.1:0", Join: join}, "127.0.0.1", dir, testLogger(self.NodeID))
	if err := g.Start(self); err != nil {
		t.Fatal(err)
	}
	return g
}

// crash ends discovery without a goodbye.
func crash(g *gossip) {
	close(g.stop)
	g.done.Wait()
	g.list.Shutdown()
}

// TestGossipHearsOfANewAddress has a node crash and come back at once with other
// ports, while the others still take it for alive.
func TestGossipHearsOfANewAddress(t *testing.T) {
	t.Parallel()
	self := func(id, address string, started int64) Peer {
		return peer(id, func(p *Peer) { p.Address, p.Started = address, started })
	}
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir(), "c": t.TempDir()}
	a := startGossip(t, dirs["a"], self("a", ":1001", 1))
	b := startGossip(t, dirs["b"], self("b", ":1002", 1), a.bound)
	c := startGossip(t, dirs["c"], self("c", "127.0.0.1:1003", 1), a.bound)
	defer b.Close()
	defer c.Close()
	known := func(address string) func() bool {
		return func() bool {
			for _, g := range []*gossip{b, c} {
				p := peer("a", nil)
				if at, _ := g.Address(p.NodeID, p.InstanceID); at != address {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "all have met", func() bool { return known("127.0.0.1:1001")() && len(b.Peers()) == 2 && len(c.Peers()) == 2 })
	a.remember()
	crash(a)
	back, begun := startGossip(t, dirs["a"], self("a", ":2001", 2)), time.Now()
	defer back.Close()
	eventually(t, "the others know the new address", known("127.0.0.1:2001"))
	t.Logf("known after %v", time.Since(begun))
	// An older word changes nothing any more; the latest one does.
	for _, g := range []*gossip{b, c} {
		g.Heard(self("a", "127.0.0.1:1001", 1))
	}
	if !known("127.0.0.1:2001")() {
		t.Error("an old address came back")
	}
	for _, g := range []*gossip{b, c} {
		g.Heard(self("a", "127.0.0.1:3001", 3))
	}
	if !known("127.0.0.1:3001")() {
		t.Error("the latest address is not known")
	}
}

// deafDiscovery hears of nobody's new address.
type deafDiscovery struct {
	Discovery
	hub *Hub // what was heard by other ways
}

func (d deafDiscovery) Heard(p Peer) { d.hub.Discovery().Heard(p) }

func (d deafDiscovery) Address(node, instance string) (string, bool) {
	if at, ok := d.hub.Discovery().Address(node, instance); ok {
		return at, true
	}
	return d.Discovery.Address(node, instance)
}

// TestPeersTellTheirAddress restarts a node with another address, of which the
// others hear only when it calls them.
func TestPeersTellTheirAddress(t *testing.T) {
	t.Parallel()
	frozen := make(map[string]*Hub)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		if frozen[name] == nil {
			frozen[name] = NewHub()
		}
		cfg.Discovery = deafDiscovery{cfg.Discovery, frozen[name]}
	})
	c.settled()
	moved := c.otherNames(name(c.leader()))[0]
	// What the others have now is all that discovery will ever tell them.
	for _, n := range c.others() {
		for _, other := range c.others(name(n)) {
			frozen[name(n)].Discovery().Heard(other.announcement())
		}
	}
	old := c.addressOf(moved)
	c.stop(moved)
	back := c.start(moved)
	if c.addressOf(moved) == old {
		t.Fatal("the address did not change")
	}
	begun := time.Now()
	c.leader()
	for _, n := range c.others(moved) {
		eventually(t, "the others reach it", func() bool { return n.mesh.link(back.self) != nil })
	}
	t.Logf("reached after %v", time.Since(begun))
	c.settled()
}
