package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const handoverTime = 2 * time.Second

var errNoSuccessor = errors.New("no other node is there to lead")

// anybody is fit to lead who can be reached.
func anybody(raftID, peerView) bool { return true }

// upToDate is fit to lead at once.
func upToDate(_ raftID, v peerView) bool { return v.lag <= maxLag }

// handOver hands leadership to the voter that is furthest along of those that are
// fit for it.
func (n *Node) handOver(ctx context.Context, fit func(raftID, peerView) bool) error {
	var to raftID
	var last uint64
	for _, id := range n.voters() {
		if v, ok := n.mesh.view(id); ok && n.mesh.link(id) != nil && fit(id, v) && (to == "" || v.Last > last) {
			to, last = id, v.Last
		}
	}
	r := n.raft.Load()
	if r == nil || to == "" {
		return errNoSuccessor
	}
	n.log.Info("handing leadership over", "to", to)
	resume := n.pause(ctx)
	defer resume()
	done := make(chan error, 1)
	go func() { done <- r.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to)).Error() }()
	select {
	case err := <-done:
		return err
	case <-time.After(handoverTime):
		return errors.New("the handover took too long")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Transfer hands leadership to a node, or where none is named to the voter that is
// furthest along, and names who leads then. The error is a *[Refusal], or as that
// of [Node.Do].
func (n *Node) Transfer(ctx context.Context, to string) (leader string, err error) {
	found, err := n.askLeader(ctx, adminRequest{Op: adminFind, Node: to})
	if err != nil {
		return "", err
	}
	move := adminRequest{Op: adminTransfer, From: found.Leader}
	switch {
	case to == "":
	case len(found.IDs) == 0:
		return "", notFound(to)
	default:
		move.To = found.IDs[len(found.IDs)-1] // one that votes, where there is one
	}
	moved, err := n.askLeader(ctx, move)
	return moved.Leader.node(), err
}

// transfer hands leadership to the member to, or where that is "" away from the
// member from. It is done once another leads and says so.
func (n *Node) transfer(ctx context.Context, from, to raftID) adminAnswer {
	if to == n.self || (to == "" && from != n.self) {
		return adminAnswer{Verdict: adminDone, Leader: n.self}
	}
	office := n.office.Load()
	if office == nil || !n.confirmed(ctx) {
		return adminAnswer{Verdict: adminElsewhere}
	}
	if to == "" {
		return n.handOverTo(ctx, upToDate)
	}
	servers, _ := n.survey(office, nil)
	if r := transferRefusal(servers, to); r != nil {
		return adminAnswer{Verdict: adminRefused, Refusal: r}
	}
	return n.handOverTo(ctx, func(id raftID, _ peerView) bool { return id == to })
}

// transferRefusal says why a server cannot lead, nil where it can.
func transferRefusal(servers []memberView, to raftID) *Refusal {
	i := slices.IndexFunc(servers, func(s memberView) bool { return s.id == to })
	switch {
	case i < 0:
		return notFound(to.node())
	case !servers[i].voter:
		return refusal(RefusedNotAVoter, to.node(), "%s has no vote yet, so it cannot lead, and nothing was changed. "+
			"It gets one when it has caught up; name another node, or wait.", to.node())
	case !servers[i].alive:
		return refusal(RefusedUnreachable, to.node(), "%s cannot be reached, so it cannot lead, and nothing was changed. "+
			"Name another node, or bring it back first.", to.node())
	case servers[i].behind:
		return refusal(RefusedBehind, to.node(), "%s is still catching up with the log, so it cannot lead yet, and nothing was changed. "+
			"Name another node, or wait.", to.node())
	}
	return nil
}

// handOverTo is handOver for an operator.
func (n *Node) handOverTo(ctx context.Context, fit func(raftID, peerView) bool) adminAnswer {
	err := n.handOver(ctx, fit)
	switch err {
	case nil:
		return adminAnswer{Verdict: adminElsewhere}
	case errNoSuccessor:
		return adminAnswer{Verdict: adminRefused, Refusal: refusal(RefusedNoSuccessor, n.self.node(),
			"%s leads, and no other voter can be reached and is up to date, so that nobody could take over and nothing was changed. "+
				"Bring another voter back first.", n.self.node())}
	}
	n.log.Warn("leadership was not handed over", "error", err)
	return adminAnswer{Verdict: adminUnknown}
}

// pause has the leader refuse commands and finish those in flight, which would
// otherwise have an unknown outcome when the lead goes. The function it returns
// has it accept commands again where it still leads.
func (n *Node) pause(ctx context.Context) (resume func()) {
	office := n.office.Load()
	n.batcher.serve(false)
	for end := time.Now().Add(handoverTime / 2); !n.batcher.idle() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return func() {
		n.officeMu.Lock()
		defer n.officeMu.Unlock()
		if office != nil && n.office.Load() == office {
			n.batcher.serve(true)
		}
	}
}
