package cluster

import (
	"crypto/rand"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// leadership is one term in which this node leads and serves.
type leadership struct {
	term  uint64
	since time.Time
	lost  chan struct{}
}

// lead follows raft's word on who leads: it takes office when this node is
// elected and leaves it when another is, or when the disk hangs.
func (n *Node) lead(r *raft.Raft) {
	defer n.wg.Done()
	var office *leadership
	leave := func() {
		if office != nil {
			n.leave(office)
			office = nil
		}
	}
	enter := func() {
		leave()
		if !n.silent.Load() {
			office = &leadership{since: time.Now(), lost: make(chan struct{})}
			n.wg.Add(1)
			go n.takeOffice(r, office)
		}
	}
	for {
		select {
		case leads := <-r.LeaderCh():
			if leads {
				enter()
			} else {
				leave()
			}
		case silent := <-n.silence:
			if silent {
				leave()
			} else if r.State() == raft.Leader {
				enter()
			}
		case <-n.stop:
			leave()
			return
		}
	}
}

const officeRetry = 20 * time.Millisecond

// takeOffice makes the machine what a leader needs, then opens for service. The
// first entry that it proposes is of its own term, so that once it is applied
// nothing earlier is missing.
func (n *Node) takeOffice(r *raft.Raft, office *leadership) {
	defer n.wg.Done()
	for {
		err := n.prepare(office)
		if err == nil {
			break
		}
		if r.State() != raft.Leader {
			return
		}
		n.log.Debug("cannot take the lead yet", "error", err)
		select {
		case <-time.After(officeRetry):
		case <-office.lost:
			return
		case <-n.stop:
			return
		}
	}
	n.officeMu.Lock()
	defer n.officeMu.Unlock()
	select {
	case <-office.lost:
		return
	default:
	}
	n.log.Info("this node leads", "term", office.term)
	n.office.Store(office)
	n.waits.serve(true)
	n.batcher.serve(true)
	n.leaderChanged.fire()
}

// prepare applies an entry of the term, and what the machine lacks.
func (n *Node) prepare(office *leadership) error {
	a, err := n.batcher.apply(nil, 16)
	if err != nil {
		return err
	}
	office.term = a.term
	if _, ok := n.replica.sealer(); !ok {
		c := fsm.Command{Op: fsm.OpInit, ClusterID: n.clusterID()}
		rand.Read(c.Secret[:])
		if _, err := n.batcher.apply([]fsm.Command{c}, 256); err != nil {
			return err
		}
	}
	return n.setCaps()
}

// setCaps gives the default spool the caps of this node's configuration.
func (n *Node) setCaps() error {
	if n.cfg.Caps == nil {
		return nil
	}
	s, err := n.replica.defaultSpool()
	if err != nil || s.Caps == *n.cfg.Caps {
		return err
	}
	c := fsm.Command{Op: fsm.OpSetCaps, Spool: fsm.DefaultSpool, Caps: *n.cfg.Caps, Suspended: s.Suspended}
	_, err = n.batcher.apply([]fsm.Command{c}, 256)
	return err
}

func (n *Node) leave(office *leadership) {
	n.officeMu.Lock()
	defer n.officeMu.Unlock()
	close(office.lost)
	if n.office.CompareAndSwap(office, nil) {
		n.log.Info("this node leads no longer", "term", office.term)
		n.batcher.serve(false)
		n.waits.serve(false)
		n.leaderChanged.fire()
	}
}

// watchLeader tells those who wait that raft knows another leader.
func (n *Node) watchLeader(r *raft.Raft) {
	defer n.wg.Done()
	ch := make(chan raft.Observation, 64)
	o := raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(o)
	defer r.DeregisterObserver(o)
	for {
		select {
		case <-ch:
			if id := n.leaderID(); id != "" && id != n.self {
				n.mesh.want(id)
			}
			n.leaderChanged.fire()
		case <-n.stop:
			return
		}
	}
}

// leaderID is the node that raft takes for the leader, "" for none.
func (n *Node) leaderID() raftID {
	r := n.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return raftID(id)
}

// isLeader is raft's word. It is not the last one, except in raft's own goroutine.
func (n *Node) isLeader() bool {
	r := n.raft.Load()
	return r != nil && r.State() == raft.Leader
}
