package cluster

import "testing"

// TestGossipForgetsWhoLeftForGood: one that still gossips is forgotten once it
// stops to, and one that is gone at once.
func TestGossipForgetsWhoLeftForGood(t *testing.T) {
	t.Parallel()
	self := func(id, address string) Peer { return peer(id, func(p *Peer) { p.Address, p.Started = address, 1 }) }
	a := startGossip(t, t.TempDir(), self("a", ":1001"))
	b := startGossip(t, t.TempDir(), self("b", ":1002"), a.bound)
	c := startGossip(t, t.TempDir(), self("c", ":1003"), a.bound)
	defer a.Close()
	known := func(id string) bool {
		p := peer(id, nil)
		_, ok := a.Address(p.NodeID, p.InstanceID)
		return ok
	}
	forget := func(id string) {
		p := peer(id, nil)
		a.Forget(p.NodeID, p.InstanceID)
	}
	eventually(t, "all have met", func() bool { return known("b") && known("c") && len(a.Peers()) == 2 })
	if !known("a") {
		t.Error("it does not know its own address")
	}

	forget("b")
	if !known("b") {
		t.Error("a node that still gossips was forgotten")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "it is forgotten", func() bool { return !known("b") })

	if err := c.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the other has gone", func() bool { return len(a.Peers()) == 0 })
	if !known("c") {
		t.Error("a node that is only away was forgotten")
	}
	forget("c")
	if known("c") || len(a.missing()) > 0 {
		t.Errorf("it is still looked for: %v", a.missing())
	}
}
