package fake

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Cluster is a state with several front ends.
type Cluster struct {
	mu     sync.Mutex
	wake   *sync.Cond // something may have become visible, or a node changed
	state  *state
	nodes  []*node
	leader int
}

// node is one front end.
type node struct {
	name   string
	addr   string
	server *http.Server // nil: not running
	paused bool
	cut    bool // off from the others
}

// New starts n front ends on loopback, with at most one planted bug.
func New(n int, seed uint64, bug Bug) (*Cluster, error) {
	c := &Cluster{state: &state{
		bug: bug, dice: rand.New(rand.NewPCG(seed, 1)),
		queues: map[string]*queue{}, ghosts: map[string][]*message{},
	}}
	c.wake = sync.NewCond(&c.mu)
	for i := range n {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("n%d", i+1)})
		if err := c.Start(i); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Start brings a front end up, on its old address where it had one.
func (c *Cluster) Start(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	if n.server != nil {
		return nil
	}
	addr := n.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.addr = l.Addr().String()
	server := &http.Server{Handler: c.handler(n), ReadHeaderTimeout: 10 * time.Second}
	n.server = server
	go func() { _ = server.Serve(l) }() // ends with Close
	return nil
}

// Kill takes a front end down with every connection that it has. Requests
// that it was working on may have happened.
func (c *Cluster) Kill(i int) error {
	c.mu.Lock()
	n := c.nodes[i]
	server := n.server
	n.server, n.paused = nil, false
	if c.leader == i {
		c.elect()
	}
	c.wake.Broadcast()
	c.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// elect moves the leadership to the next running node. The lock is held.
func (c *Cluster) elect() {
	for step := 1; step <= len(c.nodes); step++ {
		next := (c.leader + step) % len(c.nodes)
		if n := c.nodes[next]; n.server != nil && !n.paused && !n.cut {
			c.leader = next
			break
		}
	}
	c.state.failover()
}

// Pause stops or resumes a front end's answers.
func (c *Cluster) Pause(i int, paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].paused = paused
	if paused && c.leader == i {
		c.elect()
	}
	c.wake.Broadcast()
}

// Cut takes a front end off the others, or brings it back.
func (c *Cluster) Cut(i int, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].cut = cut
	if cut && c.leader == i {
		c.elect()
	}
	c.wake.Broadcast()
}

// Node returns name and URL of a front end.
func (c *Cluster) Node(i int) (name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].name, "http://" + c.nodes[i].addr
}

// Running reports whether the front end is up.
func (c *Cluster) Running(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].server != nil
}

// Leader is the front end that leads.
func (c *Cluster) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

// Len is the number of front ends.
func (c *Cluster) Len() int { return len(c.nodes) }

// Close takes every front end down.
func (c *Cluster) Close() {
	for i := range c.nodes {
		c.Pause(i, false)
		_ = c.Kill(i) // its listener is gone either way
	}
}

// errStopped says that the front end went away while a request waited.
var errStopped = errors.New("stopped")

// ready waits while the node is paused. The lock is held.
func (c *Cluster) ready(n *node) error {
	for n.paused {
		c.wake.Wait()
	}
	if n.server == nil {
		return errStopped
	}
	return nil
}

func nowMs() int64 { return time.Now().UnixMilli() }
