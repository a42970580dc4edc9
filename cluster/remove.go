package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spoolraft/spoolraft/fsm"
)

// removalRefusal says why a server cannot be removed now, nil where it can. What
// it refuses would stop the cluster, and could not even be committed: there is
// nothing that force could promise.
func removalRefusal(servers []memberView, id raftID) *Refusal {
	i := slices.IndexFunc(servers, func(s memberView) bool { return s.id == id })
	if i < 0 || !servers[i].voter || majorityWithout(servers, id) {
		return nil
	}
	var well, unwell []string
	for _, s := range servers {
		switch {
		case !s.voter || s.id == id:
		case s.well():
			well = append(well, s.id.node())
		default:
			unwell = append(unwell, s.id.node())
		}
	}
	if len(well)+len(unwell) == 0 {
		return refusal(RefusedLastVoter, id.node(), "%s was not removed: it is the only node that votes, and the cluster would end with it. "+
			"To give the cluster up, stop the node and delete its directory.", id.node())
	}
	return refusal(RefusedNoMajority, id.node(), "%s was not removed: of the %d voters that would be left only %d can be reached and %s up to date, which is "+
		"no majority, so that the cluster would stop. Bring %s back first, or, where that is lost for good, remove that one instead.",
		id.node(), len(well)+len(unwell), len(well), map[bool]string{true: "is", false: "are"}[len(well) == 1], strings.Join(unwell, " and "))
}

// Remove takes a node out of the cluster for good: the one of that instance, or
// where none is named, whoever has the node id. It returns when a majority has
// agreed, and that can take a change of leader. The error is a *[Refusal], or as
// that of [Node.Do].
func (n *Node) Remove(ctx context.Context, node, instance string) error {
	found, err := n.askLeader(ctx, adminRequest{Op: adminFind, Node: node})
	if err != nil {
		return err
	}
	ids := slices.DeleteFunc(found.IDs, func(id raftID) bool { return instance != "" && id.instance() != instance })
	if len(ids) == 0 {
		return notFound(node)
	}
	_, err = n.askLeader(ctx, adminRequest{Op: adminRemove, IDs: ids})
	return err
}

// removeMembers removes these servers as the leader. One that leads hands over
// first, and leaves the rest to its successor.
func (n *Node) removeMembers(ctx context.Context, ids []raftID) adminAnswer {
	for _, id := range ids {
		a := n.removeMember(ctx, id, ids)
		if a.Verdict != adminDone {
			return a
		}
	}
	return adminAnswer{Verdict: adminDone}
}

func (n *Node) removeMember(ctx context.Context, id raftID, all []raftID) adminAnswer {
	office := n.office.Load()
	if office == nil || !n.confirmed(ctx) {
		return adminAnswer{Verdict: adminElsewhere}
	}
	if n.hasLeft(id) {
		return adminAnswer{Verdict: adminDone}
	}
	servers, index := n.survey(office, nil)
	if r := removalRefusal(servers, id); r != nil {
		return adminAnswer{Verdict: adminRefused, Refusal: r}
	}
	if id == n.self {
		return n.handOverTo(ctx, func(id raftID, v peerView) bool { return !slices.Contains(all, id) && upToDate(id, v) })
	}
	n.log.Info("removing a member of the cluster, as it was asked for", "peer", id)
	err := n.changeMembers(ctx, change{changeRemove, id}, index)
	switch {
	case err == nil:
		return adminAnswer{Verdict: adminDone}
	case errors.Is(err, fsm.ErrNotApplied):
		return adminAnswer{Verdict: adminElsewhere}
	}
	n.log.Warn("it is not known whether a member of the cluster was removed", "peer", id, "error", err)
	return adminAnswer{Verdict: adminUnknown}
}

// hasLeft reports whether a node is in no configuration of this leader's any more,
// committed or not. It is final where this node leads, and the node was a member.
func (n *Node) hasLeft(id raftID) bool {
	committed := n.agreed.committed.Load()
	return committed.index > 0 && !committed.contains(id) && !slices.Contains(n.members(), id)
}

// dropped is told by the log that a server has left.
func (n *Node) dropped(id raftID) {
	n.applicants.drop(id)
	n.discovery.Forget(id.node(), id.instance())
}

// expelled takes a leader's word that this node is no member any more. The leader
// has made sure of it, so that it is final, but for a node that never was one.
func (n *Node) expelled(by raftID) {
	if !n.settled.Load() || n.removed.Swap(true) {
		return
	}
	n.background(func() {
		n.log.Warn(ErrRemoved.Error(), "leader", by)
		n.runMu.Lock()
		n.store.id.Removed = true
		err := n.store.id.save(n.cfg.DataDir)
		n.runMu.Unlock()
		if err != nil {
			n.log.Warn("cannot note in the data directory that this node was removed; if it is started again, it will be told again", "error", err)
		}
		n.giveUp(fmt.Errorf("node %s: %w", n.self.node(), ErrRemoved))
	})
}
