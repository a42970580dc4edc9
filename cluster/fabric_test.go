package cluster

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

// fabric is a network of named nodes whose connections can be cut, each
// direction by itself. What was sent into a cut arrives when it is healed, as
// TCP has it, unless the connection was given up meanwhile.
type fabric struct {
	mu      sync.Mutex
	names   map[string]string // by address
	cuts    map[[2]string]bool
	changed broadcast
}

func newFabric() *fabric {
	return &fabric{names: make(map[string]string), cuts: make(map[[2]string]bool)}
}

func (f *fabric) node(name string) Network { return &fabricNode{f, name} }

// cut stops what from sends to to.
func (f *fabric) cut(from, to string) { f.set(from, to, true) }

func (f *fabric) set(from, to string, cut bool) {
	f.mu.Lock()
	f.cuts[[2]string{from, to}] = cut
	f.mu.Unlock()
	f.changed.fire()
}

// isolate cuts a node off from the others, both ways.
func (f *fabric) isolate(name string, others ...string) {
	for _, o := range others {
		f.cut(name, o)
		f.cut(o, name)
	}
}

func (f *fabric) heal() {
	f.mu.Lock()
	clear(f.cuts)
	f.mu.Unlock()
	f.changed.fire()
}

func (f *fabric) isCut(from, to string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cuts[[2]string{from, to}]
}

// pass waits until from reaches to.
func (f *fabric) pass(from, to string, deadline time.Time, closed <-chan struct{}) error {
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		timeout = t.C
	}
	for {
		changed := f.changed.wait()
		if !f.isCut(from, to) {
			return nil
		}
		select {
		case <-changed:
		case <-timeout:
			return os.ErrDeadlineExceeded
		case <-closed:
			return net.ErrClosed
		}
	}
}

type fabricNode struct {
	f    *fabric
	name string
}

func (n *fabricNode) Listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err == nil {
		n.f.mu.Lock()
		n.f.names[ln.Addr().String()] = n.name
		n.f.mu.Unlock()
	}
	return ln, err
}

func (n *fabricNode) Dial(ctx context.Context, address string) (net.Conn, error) {
	n.f.mu.Lock()
	to := n.f.names[address]
	n.f.mu.Unlock()
	deadline, _ := ctx.Deadline()
	for _, way := range [...][2]string{{n.name, to}, {to, n.name}} {
		if err := n.f.pass(way[0], way[1], deadline, ctx.Done()); err != nil {
			return nil, err
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &fabricConn{Conn: conn, f: n.f, from: n.name, to: to, closed: make(chan struct{})}, nil
}

// fabricConn is the dialer's end, where both directions are controlled.
type fabricConn struct {
	net.Conn
	f        *fabric
	from, to string
	once     sync.Once
	closed   chan struct{}

	mu          sync.Mutex
	read, write time.Time
}

func (c *fabricConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, err
	}
	if err := c.f.pass(c.to, c.from, c.deadline(&c.read), c.closed); err != nil {
		c.Close()
		return 0, err
	}
	return n, nil
}

func (c *fabricConn) Write(b []byte) (int, error) {
	if err := c.f.pass(c.from, c.to, c.deadline(&c.write), c.closed); err != nil {
		c.Close()
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *fabricConn) deadline(t *time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *t
}

func (c *fabricConn) set(t time.Time, which ...*time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range which {
		*w = t
	}
}

func (c *fabricConn) SetDeadline(t time.Time) error {
	c.set(t, &c.read, &c.write)
	return c.Conn.SetDeadline(t)
}

func (c *fabricConn) SetReadDeadline(t time.Time) error {
	c.set(t, &c.read)
	return c.Conn.SetReadDeadline(t)
}

func (c *fabricConn) SetWriteDeadline(t time.Time) error {
	c.set(t, &c.write)
	return c.Conn.SetWriteDeadline(t)
}

func (c *fabricConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
