package cluster

import "sync"

// Peer is what a node says of itself before anybody talks to it.
type Peer struct {
	NodeID     string
	InstanceID string
	ClusterID  string // "": none yet
	HasState   bool   // it is, or was, in a cluster
	Expect     int
	Address    string // of its peer port
	Started    int64  // grows with every start of the node, so that the newest word wins
	Version    int    // of the peer protocol
}

func (p *Peer) raftID() raftID { return makeRaftID(p.NodeID, p.InstanceID) }

// Discovery finds nodes and carries what they say of themselves. It decides
// nothing: raft's configuration alone says who is in the cluster.
type Discovery interface {
	// Start announces self.
	Start(self Peer) error
	// Update replaces what this node says of itself.
	Update(self Peer)
	// Peers returns the nodes that are there now, without this one.
	Peers() []Peer
	// Heard tells what a node said of itself to this one, by another way than
	// discovery's own. It may be older than what is known already.
	Heard(p Peer)
	// Forget drops what is known of a node that has left the cluster for good.
	Forget(nodeID, instanceID string)
	// Address returns where a node was last known to be.
	Address(nodeID, instanceID string) (address string, ok bool)
	// Close says goodbye and stops.
	Close() error
}

// Hub lets the nodes of one process find each other.
type Hub struct {
	mu      sync.Mutex
	members map[*hubMember]struct{}
	last    map[raftID]Peer
}

// NewHub returns a hub without members.
func NewHub() *Hub {
	return &Hub{members: make(map[*hubMember]struct{}), last: make(map[raftID]Peer)}
}

// Discovery returns what one node of the process uses.
func (h *Hub) Discovery() Discovery { return &hubMember{hub: h} }

type hubMember struct {
	hub  *Hub
	self Peer
}

func (m *hubMember) Start(self Peer) error {
	m.Update(self)
	return nil
}

func (m *hubMember) Update(self Peer) {
	h := m.hub
	h.mu.Lock()
	m.self = self
	h.members[m] = struct{}{}
	h.mu.Unlock()
	m.Heard(self)
}

func (m *hubMember) Heard(p Peer) {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	if p.Started >= m.hub.last[p.raftID()].Started {
		m.hub.last[p.raftID()] = p
	}
}

func (m *hubMember) Peers() (peers []Peer) {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	for other := range m.hub.members {
		if other != m {
			peers = append(peers, other.self)
		}
	}
	return peers
}

// Forget implements [Discovery]. The hub is shared, and goes with its process.
func (m *hubMember) Forget(string, string) {}

func (m *hubMember) Address(nodeID, instanceID string) (string, bool) {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	p, ok := m.hub.last[makeRaftID(nodeID, instanceID)]
	return p.Address, ok
}

func (m *hubMember) Close() error {
	m.hub.mu.Lock()
	delete(m.hub.members, m)
	m.hub.mu.Unlock()
	return nil
}
