package cluster

import (
	"errors"

	"github.com/hashicorp/raft"
)

// Status is a node's view of itself and of its cluster.
type Status struct {
	NodeID, InstanceID string
	ClusterID          string // "": not formed yet
	State              string // of raft: Follower, Candidate, Leader, Shutdown; or Founding
	Serving            bool   // it leads and has applied all that came before
	LeaderID           string // the leader's node id, "" where none is known
	Term               uint64
	AppliedIndex       uint64 // the last command applied
	CommitIndex        uint64
	LastIndex          uint64
	Hash               uint64   // of the state at AppliedIndex
	NowMs              int64    // log time
	Voters             []string // node ids
	DiskFull           bool
}

// Status returns the node's view.
func (n *Node) Status() Status {
	s := Status{
		NodeID: n.store.id.NodeID, InstanceID: n.store.id.InstanceID, ClusterID: n.clusterID(), State: "Founding",
		Serving: n.office.Load() != nil, LeaderID: n.leaderID().node(), DiskFull: n.disk.full.Load(),
	}
	n.replica.mu.RLock()
	s.AppliedIndex, s.Hash, s.NowMs = n.replica.m.AppliedIndex(), n.replica.m.Hash(), n.replica.m.NowMs()
	n.replica.mu.RUnlock()
	r := n.raft.Load()
	if r == nil {
		return s
	}
	s.State, s.Term, s.CommitIndex, s.LastIndex = r.State().String(), r.CurrentTerm(), r.CommitIndex(), r.LastIndex()
	for _, server := range n.configured() {
		if server.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, raftID(server.ID).node())
		}
	}
	return s
}

// maxLag is how many entries a node that is ready may be behind the leader.
const maxLag = 4096

var (
	errNoLeader    = errors.New("no leader is known: the cluster has no majority, or is electing one")
	errNotReached  = errors.New("the leader cannot be reached from this node")
	errBehind      = errors.New("this node is still catching up with the leader")
	errNoSecret    = errors.New("this node has not received the cluster's state yet")
	errStarting    = errors.New("this node is starting")
	errNodeClosing = errors.New("this node is shutting down")
)

// Ready is nil where this node can serve, else why it cannot, for people.
func (n *Node) Ready() error {
	if n.removed.Load() {
		return ErrRemoved
	}
	select {
	case <-n.closing:
		return errNodeClosing
	default:
	}
	switch why := n.waiting.Load().(string); {
	case why != "":
		return errors.New(why)
	case n.raft.Load() == nil:
		return errStarting
	}
	if _, ok := n.Sealer(); !ok {
		return errNoSecret
	}
	if n.office.Load() != nil {
		return nil
	}
	leader := n.leaderID()
	switch {
	case leader == "" || leader == n.self:
		return errNoLeader
	case n.mesh.link(leader) == nil:
		return errNotReached
	}
	v, ok := n.mesh.view(leader)
	switch applied := n.replica.index.Load(); {
	case !ok:
		return errNotReached
	case applied >= v.Applied:
		n.caughtUp.Store(true)
		return nil
	case !n.caughtUp.Load() || v.Applied-applied > maxLag:
		return errBehind
	}
	return nil
}
