package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// mesh keeps a link to every other member of the cluster. Whoever asks a peer
// for something uses it: followers to forward, a leader to have itself confirmed.
type mesh struct {
	n *Node

	mu      sync.Mutex
	stopped bool
	links   map[raftID]*link
	dialing map[raftID]bool
	views   map[raftID]peerView
	last    map[raftID]time.Time // when something was heard of a node
	since   map[raftID]time.Time // when it was first seen to be a member
	wg      sync.WaitGroup
}

func newMesh(n *Node) *mesh {
	return &mesh{
		n: n, links: make(map[raftID]*link), dialing: make(map[raftID]bool), views: make(map[raftID]peerView),
		last: make(map[raftID]time.Time), since: make(map[raftID]time.Time),
	}
}

const linkDialTimeout = time.Second

// link returns the live link to a peer, or nil.
func (m *mesh) link(id raftID) *link {
	m.mu.Lock()
	l := m.links[id]
	m.mu.Unlock()
	if l == nil || !l.alive() {
		return nil
	}
	return l
}

// want has a link made, unless there is one.
func (m *mesh) want(id raftID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.links[id]
	if m.stopped || m.dialing[id] || (l != nil && l.alive()) {
		return
	}
	m.dialing[id] = true
	m.wg.Add(1)
	go m.dial(id, l != nil)
}

func (m *mesh) dial(id raftID, lost bool) {
	defer m.wg.Done()
	conn, err := m.n.dialer.dial(connLink, id, linkDialTimeout)
	m.mu.Lock()
	delete(m.dialing, id)
	if err != nil {
		delete(m.links, id)
		delete(m.views, id)
		m.mu.Unlock()
		if lost {
			m.n.log.Warn("a peer cannot be reached", "peer", id, "error", err)
		}
		return
	}
	if m.stopped {
		m.mu.Unlock()
		conn.Close()
		return
	}
	l := newLink(id, conn)
	m.links[id] = l
	m.mu.Unlock()
	m.n.log.Info("linked to a peer", "peer", id)
	m.ping(l)
	m.n.leaderChanged.fire()
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		<-l.done
		if slices.Contains(m.n.others(false), id) {
			m.want(id)
		}
	}()
}

func (m *mesh) heard(id raftID, v peerView) {
	m.mu.Lock()
	m.views[id] = v
	m.last[id] = v.at
	m.mu.Unlock()
}

// heardOf notes that a member is alive, which called this node.
func (m *mesh) heardOf(id raftID) {
	m.mu.Lock()
	m.last[id] = time.Now()
	m.mu.Unlock()
}

func (m *mesh) lastHeard(id raftID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[id]
}

// view returns what was last heard of a peer to which there is a link.
func (m *mesh) view(id raftID) (peerView, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.views[id]
	return v, ok
}

func (m *mesh) run(stop <-chan struct{}) {
	tick := time.NewTicker(m.n.cfg.tuning.pingInterval)
	defer tick.Stop()
	for {
		members := m.n.others(false)
		m.keep(members)
		for _, id := range members {
			l := m.link(id)
			switch {
			case l == nil:
				m.want(id)
			case time.Since(time.Unix(0, l.heard.Load())) > m.n.cfg.tuning.peerTimeout:
				l.close()
			default:
				m.ping(l)
			}
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// keep begins to watch new members, and forgets those that are none any more.
func (m *mesh) keep(members []raftID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range members {
		if m.since[id].IsZero() {
			m.since[id] = time.Now()
		}
	}
	left := func(id raftID, _ time.Time) bool { return !slices.Contains(members, id) }
	maps.DeleteFunc(m.since, left)
	maps.DeleteFunc(m.last, left)
	maps.DeleteFunc(m.views, func(id raftID, _ peerView) bool { return !slices.Contains(members, id) })
}

// quiet is for how long nothing was heard of a member.
func (m *mesh) quiet(id raftID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.last[id].IsZero():
		return time.Since(m.last[id])
	case !m.since[id].IsZero():
		return time.Since(m.since[id])
	}
	return 0
}

func (m *mesh) close() {
	m.mu.Lock()
	m.stopped = true
	var all []*link
	for _, l := range m.links {
		all = append(all, l)
	}
	m.mu.Unlock()
	for _, l := range all {
		l.close()
	}
	m.wg.Wait()
}

// configured are the servers of raft's latest configuration, which may not be
// committed yet.
func (n *Node) configured() []raft.Server {
	if r := n.raft.Load(); r != nil {
		return r.GetConfiguration().Configuration().Servers
	}
	return nil
}

// others returns the other members, or only those that vote.
func (n *Node) others(votersOnly bool) (ids []raftID) {
	for _, s := range n.configured() {
		if id := raftID(s.ID); id != n.self && (!votersOnly || s.Suffrage == raft.Voter) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (n *Node) voters() []raftID { return n.others(true) }
