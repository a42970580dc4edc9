package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Overview is a cluster as one of its nodes sees it.
type Overview struct {
	ClusterID string
	Term      uint64
	Leader    string // "": none is known
	SeenBy    string // whose view this is: the leader's, where it could be asked
	Voters    int
	Well      int  // voters that can be reached and are up to date
	Healthy   bool // there is a leader, and a majority of the voters is well
	MayFail   int  // how many more of the voters the cluster can lose and go on
	Members   []Member
}

// The roles of members.
const (
	RoleLeader   = "leader"
	RoleVoter    = "voter"
	RoleNonVoter = "non-voter" // it is catching up and gets a vote then
	RoleJoining  = "joining"   // it waits to be taken in
)

// Member is one node in an [Overview]. What is known of a node that cannot be
// reached is its name, its role and when it was last heard of.
type Member struct {
	Name          string
	Instance      string
	Role          string
	Reachable     bool
	LastContactMs int64 // how long ago; -1: not since the node that tells this was started

	PeerAddress, APIAddress, GossipAddress string
	Version                                string

	AppliedIndex  uint64 // of the log
	CommitIndex   uint64
	LagEntries    uint64 // behind the node whose view this is
	ClockOffsetMs int64  // ahead of that node's clock
	StateIndex    uint64 // after which the state had the digest
	StateHash     string // hexadecimal
	Diverged      bool   // its state was not that of the other at the same index: a bug
	DiskFull      bool
}

// overviewTimeout is how long the leader may take until this node's own view has
// to do.
const overviewTimeout = time.Second

// Overview tells how the cluster is: as its leader sees it, or where that cannot
// be asked, as this node does.
func (n *Node) Overview(ctx context.Context) Overview {
	ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	if a := n.askLeaderOnce(ctx, adminRequest{Op: adminOverview}); a.Overview != nil {
		return *a.Overview
	}
	return n.ownView()
}

// ownView is the cluster as this node sees it.
func (n *Node) ownView() Overview {
	leader := n.leaderID()
	o := Overview{ClusterID: n.clusterID(), Term: n.currentTerm(), Leader: leader.node(), SeenBy: n.self.node()}
	for _, s := range n.configured() {
		id := raftID(s.ID)
		m := n.member(id)
		switch {
		case s.Suffrage != raft.Voter:
			m.Role = RoleNonVoter
		case id == leader:
			m.Role = RoleLeader
		default:
			m.Role = RoleVoter
		}
		if s.Suffrage == raft.Voter {
			o.Voters++
			if m.Reachable && m.LagEntries <= maxLag {
				o.Well++
			}
		}
		o.Members = append(o.Members, m)
	}
	o.Members = append(o.Members, n.joiners(o.Members)...)
	slices.SortFunc(o.Members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Instance, b.Instance))
	})
	quorum := o.Voters/2 + 1
	led := n.office.Load() != nil || n.leaderLink() != nil
	if o.Healthy = led && o.Voters > 0 && o.Well >= quorum; o.Healthy {
		o.MayFail = o.Well - quorum
	}
	return o
}

// joiners are the nodes that are no members yet, this one among them.
func (n *Node) joiners(members []Member) (joining []Member) {
	ids := n.applicants.now()
	if !n.removed.Load() {
		ids = append(ids, n.self)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(members, func(m Member) bool { return makeRaftID(m.Name, m.Instance) == id }) {
			m := n.member(id)
			m.Role, m.Reachable = RoleJoining, true
			joining = append(joining, m)
		}
	}
	return joining
}

// member is what this node knows of one.
func (n *Node) member(id raftID) Member {
	m := Member{Name: id.node(), Instance: id.instance(), LastContactMs: -1, Reachable: n.alive(id)}
	v, known := n.mesh.view(id)
	if id == n.self {
		v, known, m.LastContactMs = peerView{vitals: n.vitals()}, true, 0
	} else if last := n.mesh.lastHeard(id); !last.IsZero() {
		m.LastContactMs = time.Since(last).Milliseconds()
	}
	m.PeerAddress, _ = n.discovery.Address(m.Name, m.Instance)
	if !known {
		return m
	}
	host, _, _ := net.SplitHostPort(m.PeerAddress)
	m.APIAddress, m.GossipAddress = reachableAt(v.API, host), reachableAt(v.Gossip, host)
	m.Version, m.AppliedIndex, m.CommitIndex, m.LagEntries = v.Version, v.Applied, v.Commit, v.lag
	m.ClockOffsetMs, m.Diverged, m.DiskFull = v.offset.Milliseconds(), v.differs, v.Full
	if len(v.Hashes) > 0 {
		latest := v.Hashes[len(v.Hashes)-1]
		m.StateIndex, m.StateHash = latest.Index, fmt.Sprintf("%016x", latest.Hash)
	}
	return m
}

// reachableAt fills in the host of an address at which a node listens on all of
// its own.
func reachableAt(address, host string) string {
	h, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(h); err == nil && (h == "" || (ip != nil && ip.IsUnspecified())) {
		return net.JoinHostPort(host, port)
	}
	return address
}

// watchMembers says once when a member is not heard of any more, and once when it
// is heard of again. Nothing else is done about it: nobody can tell one that has
// died from one that is cut off.
func (n *Node) watchMembers(stop <-chan struct{}) {
	tick := time.NewTicker(n.cfg.tuning.pingInterval)
	defer tick.Stop()
	told := make(map[raftID]bool)
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		missing := n.missing()
		for _, id := range missing {
			if !told[id] {
				told[id] = true
				n.log.Warn("a member of the cluster is not heard of any more. It stays a member: bring it back, start it with an empty directory, "+
					"or remove it with: spoolraft cluster remove "+id.node(), "peer", id, "for", n.cfg.tuning.goneAfter)
			}
		}
		for id := range told {
			if !slices.Contains(missing, id) {
				delete(told, id)
				if slices.Contains(n.others(false), id) {
					n.log.Info("a member of the cluster is heard of again", "peer", id)
				}
			}
		}
	}
}

// missing are the members of which this node has not heard for a while.
func (n *Node) missing() (ids []raftID) {
	for _, id := range n.others(false) {
		if !n.alive(id) && n.mesh.quiet(id) > n.cfg.tuning.goneAfter {
			ids = append(ids, id)
		}
	}
	return ids
}

// Missing names the members of which this node has not heard for a while.
func (n *Node) Missing() (names []string) {
	if n.raft.Load() == nil {
		return nil
	}
	for _, id := range n.missing() {
		names = append(names, id.node())
	}
	return names
}
