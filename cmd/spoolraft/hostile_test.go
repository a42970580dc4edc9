package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"
)

// rounds of garbage for each port.
const rounds = 50

// TestGarbage: bytes that mean nothing, at every port of every node, harm
// nobody.
func TestGarbage(t *testing.T) {
	needsProcesses(t)
	members := newCluster(t)
	if a, err := members[0].call(http.MethodPut, queuePath, `{"dedupWindowSeconds":3600}`); err != nil || a.status != http.StatusCreated {
		t.Fatalf("create: %d %s %v", a.status, a.body, err)
	}
	id := members[0].sendUntilStored("before")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		for _, m := range members {
			for _, address := range []string{m.http, m.peer, m.gossip} {
				throw(t, r, "tcp", address)
			}
			throw(t, r, "udp", m.gossip)
		}
	}
	for _, m := range members {
		if !m.proc.running() {
			t.Fatalf("%s has ended", m.id)
		}
		m.awaitReady()
		m.remembers("before", id)
		key := fmt.Sprintf("after-at-%s", m.id)
		if a, err := m.send(key); err != nil || a.status != http.StatusCreated {
			t.Errorf("send at %s: %d %s %v", m.id, a.status, a.body, err)
		}
	}
}

// openings are how a sender may get past the first look.
var openings = []string{"", "GET / HTTP/1.1\r\n", "POST " + queuePath + "/send HTTP/1.1\r\nHost: x\r\n", "SPLR\x01\x01", "SPLR\x01\x02", "\x00", "\x16\x03\x01"}

// throw sends garbage and hangs up, or waits for the other side to.
func throw(t *testing.T, r *rand.Rand, network, address string) {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := []byte(openings[r.IntN(len(openings))])
	for range r.IntN(2000) {
		b = append(b, byte(r.Uint32()))
	}
	if _, err := c.Write(b); err != nil {
		return // it has hung up first
	}
	if tcp, ok := c.(*net.TCPConn); ok && r.IntN(2) == 0 {
		_ = tcp.CloseWrite()
		_ = tcp.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, tcp) // whatever it says
	}
}
