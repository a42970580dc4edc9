package cluster

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	preambleTimeout = 5 * time.Second
	maxStrangers    = 64 // connections that have not said yet what they are
)

// acceptor owns the peer port. It hands connections on that have shown a
// preamble for this node, and closes all others.
type acceptor struct {
	ln      net.Listener
	self    raftID
	log     *slog.Logger
	cluster func() string // "": not ready
	raft    chan net.Conn
	link    func(raftID, net.Conn)
	met     func(preamble, net.Addr) // told of everybody who is let in

	strangers chan struct{}
	stop      chan struct{}
	done      sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // in their preamble
}

func newAcceptor(ln net.Listener, self raftID, cluster func() string, link func(raftID, net.Conn), met func(preamble, net.Addr), log *slog.Logger) *acceptor {
	return &acceptor{
		ln: ln, self: self, log: log, cluster: cluster, link: link, met: met, raft: make(chan net.Conn),
		strangers: make(chan struct{}, maxStrangers), stop: make(chan struct{}), conns: make(map[net.Conn]struct{}),
	}
}

func (a *acceptor) start() {
	a.done.Add(1)
	go a.accept()
}

func (a *acceptor) accept() {
	defer a.done.Done()
	for {
		conn, err := a.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			a.log.Warn("cannot accept a connection on the peer port", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-a.stop:
				return
			}
		}
		select {
		case a.strangers <- struct{}{}:
			a.done.Add(1)
			go a.greet(conn)
		default:
			conn.Close()
		}
	}
}

// greet reads the preamble of a connection and answers it.
func (a *acceptor) greet(conn net.Conn) {
	defer a.done.Done()
	a.mu.Lock()
	a.conns[conn] = struct{}{}
	a.mu.Unlock()
	p, ok := a.admit(conn)
	a.mu.Lock()
	delete(a.conns, conn)
	a.mu.Unlock()
	<-a.strangers
	switch {
	case !ok:
		conn.Close()
	case p.kind == connLink:
		a.link(p.from, conn)
	default:
		select {
		case a.raft <- conn:
		case <-a.stop:
			conn.Close()
		}
	}
}

func (a *acceptor) admit(conn net.Conn) (p preamble, ok bool) {
	if conn.SetDeadline(time.Now().Add(preambleTimeout)) != nil {
		return p, false
	}
	p, err := readPreamble(conn)
	if err != nil {
		a.log.Debug("a connection to the peer port was closed", "remote", conn.RemoteAddr(), "error", err)
		return p, false
	}
	answer := p.admit(a.self, a.cluster())
	if answer == refusedCluster {
		a.log.Warn("a node of another cluster was refused", "peer", p.from, "itsCluster", p.cluster)
	} else if answer != admitted {
		a.log.Debug("a peer was refused", "peer", p.from, "because", answer.err())
	}
	if answer == admitted {
		a.met(p, conn.RemoteAddr())
	}
	_, err = conn.Write([]byte{byte(answer)})
	return p, answer == admitted && err == nil && conn.SetDeadline(time.Time{}) == nil
}

func (a *acceptor) close() {
	close(a.stop)
	a.ln.Close()
	a.mu.Lock()
	for c := range a.conns {
		c.Close()
	}
	a.mu.Unlock()
	a.done.Wait()
}
