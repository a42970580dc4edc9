package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	defaultGossipPort = 7946
	peersFile         = "peers.json"
	rejoinInterval    = 2 * time.Second
)

// gossip is [Discovery] by memberlist. What it hears is advice: a node that it
// calls dead costs a line in the log, and its last known address is kept.
type gossip struct {
	cfg       GossipConfig
	advertise string // host that peers should use, or ""
	dir       string
	log       *slog.Logger

	mu      sync.Mutex // memberlist calls with its locks held, so it must not be called with this one held
	list    *memberlist.Memberlist
	self    Peer
	alive   map[string]Peer // by memberlist's name, which is the raft id
	known   map[string]knownPeer
	leaving map[string]bool // to be forgotten when they are not alive any more
	unsaved bool            // known has changed
	bound   string          // address of the gossip port
	host    string          // at which others find this node
	stop    chan struct{}
	done    sync.WaitGroup
}

// knownPeer is kept on disk, so that a node finds the others again although the
// nodes that it was told to join are gone.
type knownPeer struct {
	Address string `json:"address"`
	Gossip  string `json:"gossip,omitempty"`
	Started int64  `json:"started,omitempty"`
}

func newGossip(cfg GossipConfig, advertise, dir string, log *slog.Logger) *gossip {
	host, _, err := net.SplitHostPort(advertise)
	if err != nil {
		host = advertise
	}
	g := &gossip{
		cfg: cfg, advertise: host, dir: dir, log: log,
		alive: make(map[string]Peer), known: make(map[string]knownPeer), leaving: make(map[string]bool),
		stop: make(chan struct{}),
	}
	if data, err := os.ReadFile(filepath.Join(dir, peersFile)); err == nil {
		_ = json.Unmarshal(data, &g.known) // a hint that cannot be read is no hint
	}
	return g
}

func (g *gossip) Start(self Peer) error {
	g.mu.Lock()
	g.self = self
	g.mu.Unlock()
	c := memberlist.DefaultLANConfig()
	c.Name = string(self.raftID())
	c.Label = "spoolraft"
	c.Logger = gossipLogger(g.log)
	c.Delegate = g
	c.Events = g
	c.Conflict = g
	// Names are random in part and nobody else's, so that a node that is back with
	// another address need not wait until the others have forgotten it.
	c.DeadNodeReclaimTime = time.Millisecond
	host, port, err := splitAddress(g.cfg.Listen, defaultGossipPort)
	if err != nil {
		return fmt.Errorf("gossip address %q: %w", g.cfg.Listen, err)
	}
	if host != "" {
		c.BindAddr = host
	}
	c.BindPort, c.AdvertisePort = port, port
	if g.advertise != "" {
		ip, err := net.ResolveIPAddr("ip", g.advertise)
		if err != nil {
			return fmt.Errorf("advertised address %q: %w", g.advertise, err)
		}
		c.AdvertiseAddr = ip.String()
	}
	list, err := memberlist.Create(c)
	if err != nil {
		return fmt.Errorf("cannot open the gossip port: %w", err)
	}
	g.mu.Lock()
	g.list, g.bound = list, net.JoinHostPort(c.BindAddr, strconv.Itoa(c.BindPort))
	g.mu.Unlock()
	g.done.Add(1)
	go g.keepJoining()
	return nil
}

// keepJoining asks the others until somebody is there, and again whenever nobody
// is, since after a partition two halves would not find each other by gossip.
func (g *gossip) keepJoining() {
	defer g.done.Done()
	for {
		if missing := g.missing(); len(missing) > 0 {
			_, _ = g.list.Join(missing)
		}
		g.remember()
		select {
		case <-time.After(rejoinInterval):
		case <-g.stop:
			return
		}
	}
}

// missing returns whom to ask: all addresses while nobody is there, else those
// of known peers that are not.
func (g *gossip) missing() (ask []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, k := range g.known {
		if _, ok := g.alive[id]; !ok && k.Gossip != "" {
			ask = append(ask, k.Gossip)
		}
	}
	if len(g.alive) == 0 {
		ask = append(ask, g.cfg.Join...)
	}
	return ask
}

func (g *gossip) Update(self Peer) {
	g.mu.Lock()
	g.self = self
	g.mu.Unlock()
	if err := g.list.UpdateNode(time.Second); err != nil {
		g.log.Debug("gossip was not told of a change in time", "error", err)
	}
}

func (g *gossip) Peers() (peers []Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.alive {
		peers = append(peers, p)
	}
	return peers
}

func (g *gossip) Address(nodeID, instanceID string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := makeRaftID(nodeID, instanceID)
	if id == g.self.raftID() {
		return withHost(g.self.Address, g.host), true
	}
	k, ok := g.known[string(id)]
	return k.Address, ok
}

func (g *gossip) Close() error {
	close(g.stop)
	g.done.Wait()
	g.remember()
	return errors.Join(g.list.Leave(time.Second), g.list.Shutdown())
}

// NotifyJoin implements memberlist.EventDelegate.
func (g *gossip) NotifyJoin(n *memberlist.Node) { g.heard(n, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (g *gossip) NotifyUpdate(n *memberlist.Node) { g.heard(n, false) }

// NotifyLeave implements memberlist.EventDelegate.
func (g *gossip) NotifyLeave(n *memberlist.Node) {
	g.mu.Lock()
	_, was := g.alive[n.Name]
	delete(g.alive, n.Name)
	if g.leaving[n.Name] {
		g.forget(n.Name)
	}
	for _, p := range g.alive {
		if p.NodeID == raftID(n.Name).node() {
			g.forgetPredecessors(p)
		}
	}
	g.mu.Unlock()
	if was {
		g.log.Info("gossip misses a node", "peer", n.Name)
	}
}

// NotifyConflict implements memberlist.ConflictDelegate. A node that is back with
// another address is taken for a second one until gossip misses the first, which
// takes many seconds; so long its word is heard here.
func (g *gossip) NotifyConflict(_, other *memberlist.Node) {
	if p, ok := peerOf(other); ok {
		g.learn(p, other.Address())
	}
}

// peerOf is what a node says of itself by gossip.
func peerOf(n *memberlist.Node) (p Peer, ok bool) {
	p, ok = decodePeer(n.Meta)
	if !ok || string(p.raftID()) != n.Name {
		return p, false
	}
	p.Address = withHost(p.Address, n.Addr.String())
	return p, true
}

// withHost fills in a host that is left out.
func withHost(address, host string) string {
	if h, port, err := net.SplitHostPort(address); err == nil && h == "" {
		return net.JoinHostPort(host, port)
	}
	return address
}

func (g *gossip) Heard(p Peer) { g.learn(p, "") }

// learn keeps where a peer is, unless something newer is known.
func (g *gossip) learn(p Peer, gossip string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := string(p.raftID())
	old := g.known[id]
	if p.raftID() == g.self.raftID() || p.Started < old.Started {
		return
	}
	k := knownPeer{p.Address, gossip, p.Started}
	if k.Gossip == "" {
		k.Gossip = old.Gossip
	}
	if k == old {
		return
	}
	g.known[id] = k
	g.unsaved = true
	if old.Address != "" && old.Address != k.Address {
		g.log.Info("a peer has another address now", "peer", id, "address", k.Address)
	}
}

// Forget implements [Discovery]. A node that still gossips is forgotten when it
// stops to.
func (g *gossip) Forget(nodeID, instanceID string) {
	id := string(makeRaftID(nodeID, instanceID))
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, alive := g.alive[id]; alive {
		g.leaving[id] = true
		return
	}
	g.forget(id)
}

// forget is Forget with the lock held.
func (g *gossip) forget(id string) {
	delete(g.leaving, id)
	if _, known := g.known[id]; known {
		delete(g.known, id)
		g.unsaved = true
	}
}

// forgetPredecessors drops the addresses of nodes whose place in the cluster this
// one has taken. The caller holds the lock.
func (g *gossip) forgetPredecessors(p Peer) {
	if p.ClusterID == "" {
		return
	}
	for id, k := range g.known {
		if _, alive := g.alive[id]; !alive && k.Started < p.Started && raftID(id).node() == p.NodeID && raftID(id) != p.raftID() {
			g.forget(id)
		}
	}
}

func (g *gossip) heard(n *memberlist.Node, joined bool) {
	p, ok := peerOf(n)
	if !ok {
		return
	}
	g.mu.Lock()
	if p.raftID() == g.self.raftID() {
		g.host = n.Addr.String()
		g.mu.Unlock()
		return
	}
	g.alive[n.Name] = p
	g.forgetPredecessors(p)
	g.mu.Unlock()
	g.learn(p, n.Address())
	if joined {
		g.log.Info("gossip found a node", "peer", n.Name, "address", p.Address)
	}
}

// remember saves the known peers where they have changed.
func (g *gossip) remember() {
	g.mu.Lock()
	unsaved := g.unsaved
	g.unsaved = false
	data, err := json.Marshal(g.known)
	g.mu.Unlock()
	if !unsaved {
		return
	}
	if err == nil {
		err = writeFileAtomic(filepath.Join(g.dir, peersFile), data)
	}
	if err != nil {
		g.log.Warn("cannot save the addresses of the peers", "error", err)
	}
}

// NodeMeta implements memberlist.Delegate.
func (g *gossip) NodeMeta(limit int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	data, err := json.Marshal(g.self)
	if err != nil || len(data) > limit {
		g.log.Error("this node cannot be announced: its names and addresses are too long", "bytes", len(data), "limit", limit)
		return nil
	}
	return data
}

func decodePeer(meta []byte) (p Peer, ok bool) {
	err := json.Unmarshal(meta, &p)
	return p, err == nil && validNodeID(p.NodeID) && len(p.InstanceID) == 16 && len(p.ClusterID) <= 64
}

// NotifyMsg implements memberlist.Delegate; nothing is sent this way.
func (g *gossip) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (g *gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (g *gossip) MergeRemoteState([]byte, bool) {}

// splitAddress splits host[:port] and gives a missing port its default.
func splitAddress(s string, defaultPort int) (host string, port int, err error) {
	if s == "" {
		return "", defaultPort, nil
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return s, defaultPort, nil
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q is not a number from 0 to 65535", text)
	}
	return host, port, nil
}
