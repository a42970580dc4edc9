package cluster

import (
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"
)

// TestHostilePeerPort sends rubbish to the peer port, before a preamble and
// after one, while the cluster works.
func TestHostilePeerPort(t *testing.T) {
	long(t)
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	target := c.nodes["a"]
	address := target.peerAddress()
	before := runtime.NumGoroutine()
	random := rand.New(rand.NewPCG(1, 2))
	rubbish := func() []byte {
		b := make([]byte, random.IntN(4000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	knock := func(bs ...[]byte) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, b := range bs {
			_, _ = conn.Write(b)
		}
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, conn)
	}
	for range 100 {
		knock(rubbish())
		for _, kind := range []connKind{connRaft, connLink} {
			p := preamble{protocolVersion, kind, target.clusterID(), "x/0123456789abcdef", target.self, "127.0.0.1:1", 1}
			knock(p.bytes(), rubbish())
			p.to = "a/0123456789abcdef"
			knock(p.bytes(), rubbish())
		}
	}
	// More silent strangers than are let in; the rest are turned away.
	var silent []net.Conn
	for range 2 * maxStrangers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	mustDo(t, c.nodes["b"], keyed("q", "k", ""))
	for _, conn := range silent {
		conn.Close()
	}
	mustDo(t, c.nodes["a"], keyed("q", "k2", ""))
	eventually(t, "nothing is left of it", func() bool { return runtime.NumGoroutine() < before+50 })
	c.settled()
}

// TestStrangersAreRefused has a node of one cluster call one of another.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	one, two := newCluster(t, 1, nil), newCluster(t, 1, nil)
	a, b := one.nodes["a"], two.nodes["a"]
	d := &dialer{network: tcpNetwork{}, discovery: two.hub.Discovery(), self: a.self, cluster: a.clusterID, where: a.where}
	for _, kind := range []connKind{connRaft, connLink} {
		if conn, err := d.dial(kind, b.self, patience); err == nil {
			conn.Close()
			t.Errorf("kind %d: a node of another cluster was let in", kind)
		}
	}
	d.cluster = b.clusterID
	conn, err := d.dial(connLink, b.self, patience)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
