package cluster

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestGossip founds a cluster of nodes that find each other by gossip, with
// rubbish at the gossip ports, moves one to another address and empties another.
func TestGossip(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	nodes := make(map[string]*Node)
	var seed string
	start := func(id string, join ...string) {
		t.Helper()
		cfg := alone(filepath.Join(dir, id), "")
		cfg.NodeID, cfg.Discovery, cfg.Expect, cfg.Logger = id, nil, 3, testLogger(id)
		cfg.Gossip = GossipConfig{Listen: "127.0.0.1:0", Join: join}
		cfg.Advertise = "127.0.0.1"
		cfg.tuning.heartbeat, cfg.tuning.lease = defaultTuning().heartbeat, defaultTuning().lease
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		nodes[id] = n
	}
	gossipAddress := func(id string) string { return nodes[id].discovery.(*gossip).bound }
	start("a")
	seed = gossipAddress("a")
	start("b", seed)
	if nodes["a"].raft.Load() != nil {
		t.Error("founded with two of three")
	}
	start("c", seed)
	for _, id := range []string{"a", "b", "c"} {
		rubbish(t, gossipAddress(id))
	}
	makeQueue(t, nodes["b"], "q")
	mustDo(t, nodes["c"], keyed("q", "k", ""))

	// The node that the others were told to join moves away and comes back with
	// other ports and nobody to join: it remembers the others.
	old := nodes["a"].peerAddress()
	if err := nodes["a"].Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	mustRetry(t, nodes["b"], "k2")
	start("a")
	if nodes["a"].peerAddress() == old {
		t.Fatal("the address did not change")
	}
	eventually(t, "the node is back", func() bool { return nodes["a"].Ready() == nil })
	if r := mustRetry(t, nodes["a"], "k"); r.Code != fsm.CodeDuplicate {
		t.Errorf("retry: %+v", r)
	}
	// Another one loses its directory, and is taken in again.
	if err := nodes["c"].Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	before, begun := nodes["c"].self, time.Now()
	start("c", gossipAddress("b"))
	eventually(t, "the emptied node is ready and votes in its old place", func() bool {
		voters := append(nodes["a"].voters(), nodes["a"].self)
		return nodes["c"].Ready() == nil && len(voters) == 3 && !slices.Contains(voters, before) && slices.Contains(voters, nodes["c"].self)
	})
	t.Logf("taken in again after %v", time.Since(begun))
	eventually(t, "the address of its old self is forgotten", func() bool {
		_, known := nodes["a"].discovery.Address(before.node(), before.instance())
		return !known
	})
	if r := mustRetry(t, nodes["c"], "k"); r.Code != fsm.CodeDuplicate {
		t.Errorf("retry: %+v", r)
	}
	for _, n := range nodes {
		if err := n.Shutdown(within(t)); err != nil {
			t.Error(err)
		}
	}
}

func mustRetry(t *testing.T, n *Node, key string) fsm.Result {
	t.Helper()
	return retryUntilKnown(t, n, keyed("q", key, ""))
}

// rubbish sends random packets and streams to a gossip port.
func rubbish(t *testing.T, address string) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	udp, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for range 200 {
		b := make([]byte, 1+random.IntN(1200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		_, _ = udp.Write(b)
		if random.IntN(10) > 0 {
			continue
		}
		tcp, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tcp.Write(b)
		tcp.Close()
	}
}

func TestSplitAddress(t *testing.T) {
	for in, want := range map[string]struct {
		host string
		port int
		ok   bool
	}{
		"": {"", 7946, true}, "host": {"host", 7946, true}, "host:1": {"host", 1, true}, ":9": {"", 9, true},
		"[::1]:9": {"::1", 9, true}, "host:x": {"", 0, false}, "host:70000": {"", 0, false},
	} {
		host, port, err := splitAddress(in, defaultGossipPort)
		if host != want.host || port != want.port || (err == nil) != want.ok {
			t.Errorf("%q: %q %d %v", in, host, port, err)
		}
	}
}

// TestGossipAnswersWhileItHears: memberlist tells of changes with its locks held,
// so that asking it with ours held would block both for good.
func TestGossipAnswersWhileItHears(t *testing.T) {
	t.Parallel()
	self := peer("a", func(p *Peer) { p.Address = ":7000" })
	g := startGossip(t, t.TempDir(), self)
	defer g.Close()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for n := range 2000 {
			g.Update(peer("a", func(p *Peer) { p.Address, p.Started = ":7000", int64(n+1) }))
		}
	}()
	for {
		select {
		case <-changed:
			return
		default:
		}
		if address, ok := g.Address(self.NodeID, self.InstanceID); !ok || address != "127.0.0.1:7000" {
			t.Fatalf("its own address is %q, %v", address, ok)
		}
	}
}
