package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

// Link is one direction between two parties.
type Link struct{ From, To string }

// Condition is what happens to the bytes of a link. The zero value is a good
// link.
type Condition struct {
	Cut         bool          // nothing passes
	Latency     time.Duration // added to every chunk
	Jitter      time.Duration // up to so much more
	StallChance float64       // of a chunk: it waits Stall, as after a lost packet
	Stall       time.Duration
	ResetChance float64 // of a chunk: its connection is reset
	DropAnswers float64 // chance that an answer is swallowed and its connection reset
}

// Identify names the party that made a connection, "" where it is unknown.
type Identify func(remote, local *net.TCPAddr) string

// Mesh is all listeners and the conditions between all parties.
type Mesh struct {
	seed uint64

	mu        sync.Mutex
	links     map[Link]Condition
	changed   chan struct{} // closed, and made anew, at each change
	listeners map[string]*listener
	accepted  int
	closed    bool
	working   sync.WaitGroup
}

// listener is the proxy in front of one address.
type listener struct {
	mesh     *Mesh
	party    string
	identify Identify
	net      net.Listener

	mu     sync.Mutex
	target string
}

// New returns a mesh of good links.
func New(seed uint64) *Mesh {
	return &Mesh{
		seed: seed, links: map[Link]Condition{}, changed: make(chan struct{}),
		listeners: map[string]*listener{},
	}
}

// Listen puts a proxy in front of the party's target and returns its
// address. The name tells several listeners of one party apart.
func (m *Mesh) Listen(name, party, target string, identify Identify) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for %s: %w", name, err)
	}
	in := &listener{mesh: m, party: party, identify: identify, net: l, target: target}
	m.mu.Lock()
	old := m.listeners[name]
	m.listeners[name] = in
	m.working.Add(1)
	m.mu.Unlock()
	if old != nil {
		old.net.Close()
	}
	go in.accept()
	return l.Addr().String(), nil
}

// Set gives the link a condition.
func (m *Mesh) Set(l Link, c Condition) {
	m.change(func() { m.links[l] = c })
}

// Clear makes the links good again, all of them where none is given.
func (m *Mesh) Clear(links ...Link) {
	m.change(func() {
		if len(links) == 0 {
			clear(m.links)
		}
		for _, l := range links {
			delete(m.links, l)
		}
	})
}

func (m *Mesh) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Close closes every listener and connection and waits for them.
func (m *Mesh) Close() {
	m.change(func() {
		m.closed = true
		for _, l := range m.listeners {
			l.net.Close()
		}
	})
	m.working.Wait()
}

// look returns the link's condition, and what is closed when it changes.
func (m *Mesh) look(l Link) (c Condition, changed <-chan struct{}, closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[l], m.changed, m.closed
}

// passable waits until nothing is cut on any of the links. It is false when
// gone is closed, or the mesh, before that.
func (m *Mesh) passable(gone <-chan struct{}, links ...Link) bool {
	for {
		open := true
		var changed <-chan struct{}
		for _, l := range links {
			c, ch, closed := m.look(l)
			if closed {
				return false
			}
			if changed == nil {
				changed = ch // the oldest look misses no change
			}
			open = open && !c.Cut
		}
		if open {
			return true
		}
		select {
		case <-changed:
		case <-gone:
			return false
		}
	}
}

// accept serves the listener until it is closed.
func (in *listener) accept() {
	m := in.mesh
	defer m.working.Done()
	for {
		conn, err := in.net.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.accepted++
		n := m.accepted
		if m.closed {
			m.mu.Unlock()
			conn.Close()
			return
		}
		m.working.Add(1)
		m.mu.Unlock()
		go func() {
			defer m.working.Done()
			in.serve(conn.(*net.TCPConn), n)
		}()
	}
}

// serve carries one connection.
func (in *listener) serve(client *net.TCPConn, n int) {
	defer client.Close()
	m := in.mesh
	from := in.identify(client.RemoteAddr().(*net.TCPAddr), client.LocalAddr().(*net.TCPAddr))
	there, back := Link{from, in.party}, Link{in.party, from}
	// A connection is made by a packet each way: it needs both directions.
	if !m.passable(nil, there, back) {
		return
	}
	in.mu.Lock()
	target := in.target
	in.mu.Unlock()
	up, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0) // a closed port answers with a reset
		return
	}
	defer up.Close()
	p := newPair(m, client, up.(*net.TCPConn))
	var both sync.WaitGroup
	both.Go(func() { p.pump(client, p.up, there, dice.New(m.seed, "proxy", in.party, from, n, "there"), false) })
	both.Go(func() { p.pump(p.up, client, back, dice.New(m.seed, "proxy", in.party, from, n, "back"), true) })
	both.Wait()
}

// Retarget sends the new connections of a listener to another address.
func (m *Mesh) Retarget(name, target string) {
	m.mu.Lock()
	l := m.listeners[name]
	m.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}
