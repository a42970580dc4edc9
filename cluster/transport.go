package cluster

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var errSilenced = errors.New("this node keeps silent while its disk hangs")

// streamLayer gives raft its connections. Addresses in raft are raft ids: a vote
// is remembered by the address of the candidate, so that an address that moves to
// another node could vote twice in a term.
type streamLayer struct {
	dialer *dialer
	in     *acceptor

	mu     sync.Mutex
	silent bool
	open   map[*raftConn]struct{}

	settled func() // waits until this node's log is flushed
}

// raftConn leaves the layer's list when it is closed.
type raftConn struct {
	net.Conn
	layer   *streamLayer
	answers bool // to another member
}

// Write holds an answer back until this node's log is flushed: it may stand for
// entries that a leader stored and gave up the lead over.
func (c *raftConn) Write(b []byte) (int, error) {
	if c.answers {
		c.layer.settled()
	}
	return c.Conn.Write(b)
}

func (c *raftConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.open, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if s.isSilent() {
		return nil, errSilenced
	}
	conn, err := s.dialer.dial(connRaft, raftID(to), timeout)
	if err != nil {
		return nil, err
	}
	return s.track(conn, false)
}

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-s.in.raft:
		return s.track(conn, true)
	case <-s.in.stop:
		return nil, net.ErrClosed
	}
}

func (s *streamLayer) track(conn net.Conn, answers bool) (net.Conn, error) {
	c := &raftConn{conn, s, answers}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		conn.Close()
		return nil, errSilenced
	}
	s.open[c] = struct{}{}
	return c, nil
}

func (s *streamLayer) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

// silence cuts raft off from its peers, or lets it talk again. Raft's own
// heartbeats would keep a leader whose main loop hangs.
func (s *streamLayer) silence(on bool) {
	s.mu.Lock()
	s.silent = on
	s.mu.Unlock()
	if on {
		s.closeConns()
	}
}

func (s *streamLayer) closeConns() {
	s.mu.Lock()
	var all []*raftConn
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// Close implements net.Listener. The peer port itself is the acceptor's.
func (s *streamLayer) Close() error { return nil }

// Addr implements net.Listener.
func (s *streamLayer) Addr() net.Addr { return idAddr(s.dialer.self) }

type idAddr raftID

func (idAddr) Network() string  { return "raft" }
func (a idAddr) String() string { return string(a) }

// transport is raft's, with more patience: raft backs off from a peer that does
// not answer for up to ten seconds at a time, in which a peer that has come back
// gets heartbeats but no entries. So a request with entries is offered again
// until the peer takes it, or this node leads no longer.
type transport struct {
	*raft.NetworkTransport
	raft  atomic.Pointer[raft.Raft]
	limit func(index uint64) uint64 // how far the log up to an index is flushed here
	stop  chan struct{}
}

const retryAppend = 100 * time.Millisecond

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	a := *args
	for {
		a.LeaderCommitIndex = t.limit(args.LeaderCommitIndex)
		err := t.NetworkTransport.AppendEntries(id, to, &a, resp)
		if err == nil || isHeartbeat(args) || !t.replicates(id, args.Term) {
			return err
		}
		select {
		case <-time.After(retryAppend):
		case <-t.stop:
			return err
		}
	}
}

// isHeartbeat tells the requests that have a routine of their own in raft.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

func (t *transport) replicates(id raft.ServerID, term uint64) bool {
	r := t.raft.Load()
	if r == nil || r.State() != raft.Leader || r.CurrentTerm() != term {
		return false
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			return true
		}
	}
	return false
}
