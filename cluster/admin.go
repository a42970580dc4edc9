package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// What an operator asks of a cluster, any node takes and the leader carries out.
// Every request names what it means exactly, so that it can be repeated when the
// leader changes or an answer is lost: a node by its instance, the lead by who is
// to have it or who had it.

// RefusalReason says why a request of an operator was refused.
type RefusalReason string

// The reasons.
const (
	RefusedNotFound    RefusalReason = "node_not_found"
	RefusedNotAVoter   RefusalReason = "not_a_voter"
	RefusedUnreachable RefusalReason = "node_unreachable"
	RefusedBehind      RefusalReason = "node_behind"
	RefusedNoMajority  RefusalReason = "no_majority_left"
	RefusedLastVoter   RefusalReason = "last_voter"
	RefusedNoSuccessor RefusalReason = "no_successor"
)

// Refusal is a request that was not carried out and will not be.
type Refusal struct {
	Reason RefusalReason
	Node   string // that it is about
	Text   string // for people
}

func (r *Refusal) Error() string { return r.Text }

func refusal(reason RefusalReason, node, format string, args ...any) *Refusal {
	return &Refusal{reason, node, fmt.Sprintf(format, args...)}
}

func notFound(node string) *Refusal {
	return refusal(RefusedNotFound, node, "There is no node %s in the cluster, so nothing was changed. Check its name.", node)
}

type adminOp string

const (
	adminOverview adminOp = "overview"
	adminFind     adminOp = "find"     // the members of a node id, and the leader
	adminRemove   adminOp = "remove"   // these members
	adminTransfer adminOp = "transfer" // the lead, to a member, or away from one
)

type adminRequest struct {
	Op   adminOp
	Node string   `json:",omitempty"`
	IDs  []raftID `json:",omitempty"`
	From raftID   `json:",omitempty"`
	To   raftID   `json:",omitempty"`
}

type adminVerdict string

const (
	adminDone      adminVerdict = "done"
	adminElsewhere adminVerdict = "elsewhere" // not done; another leader is to be asked
	adminRefused   adminVerdict = "refused"   // not done
	adminUnknown   adminVerdict = "unknown"
)

type adminAnswer struct {
	Verdict  adminVerdict
	Refusal  *Refusal  `json:",omitempty"`
	IDs      []raftID  `json:",omitempty"`
	Leader   raftID    `json:",omitempty"`
	Overview *Overview `json:",omitempty"`
}

const (
	adminTimeout = 10 * time.Second // of a request at the leader
	adminAgain   = 50 * time.Millisecond
)

// administer carries a request out where this node leads.
func (n *Node) administer(ctx context.Context, r adminRequest) adminAnswer {
	if n.office.Load() == nil {
		return adminAnswer{Verdict: adminElsewhere}
	}
	switch r.Op {
	case adminOverview:
		o := n.ownView()
		return adminAnswer{Verdict: adminDone, Overview: &o}
	case adminFind:
		return n.findMembers(ctx, r.Node)
	}
	select { // one at a time, so that each is decided on what the last one left
	case n.changing <- struct{}{}:
		defer func() { <-n.changing }()
	case <-ctx.Done():
		return adminAnswer{Verdict: adminElsewhere}
	}
	switch r.Op {
	case adminRemove:
		return n.removeMembers(ctx, r.IDs)
	case adminTransfer:
		return n.transfer(ctx, r.From, r.To)
	}
	return adminAnswer{Verdict: adminElsewhere}
}

// findMembers names the members of a node id, those without a vote first.
func (n *Node) findMembers(ctx context.Context, node string) adminAnswer {
	if !n.confirmed(ctx) {
		return adminAnswer{Verdict: adminElsewhere}
	}
	a := adminAnswer{Verdict: adminDone, Leader: n.self}
	var voters []raftID
	for _, s := range n.agreed.committed.Load().servers {
		switch id := raftID(s.ID); {
		case id.node() != node:
		case s.Suffrage == raft.Voter:
			voters = append(voters, id)
		default:
			a.IDs = append(a.IDs, id)
		}
	}
	a.IDs = append(a.IDs, voters...)
	return a
}

// askLeader has the leader carry a request out, whoever that is, and asks again
// until the outcome is definite. What is refused after an attempt of unknown
// outcome is unknown: an attempt can be delayed for long.
func (n *Node) askLeader(ctx context.Context, r adminRequest) (a adminAnswer, err error) {
	if !n.enter() {
		return a, fsm.ErrClosed
	}
	defer n.exit()
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	reads := r.Op == adminOverview || r.Op == adminFind
	for maybe := false; ; {
		changed := n.leaderChanged.wait()
		a = n.askLeaderOnce(ctx, r)
		switch {
		case a.Verdict == adminUnknown && reads:
		case a.Verdict == adminDone:
			return a, nil
		case a.Verdict == adminRefused && !maybe:
			return a, a.Refusal
		case a.Verdict == adminUnknown && r.Op == adminTransfer:
			return a, unknown("the lead may move yet")
		case a.Verdict == adminRefused:
			return a, unknown("an earlier attempt may have been carried out")
		case a.Verdict == adminUnknown:
			maybe = true
		}
		select {
		case <-changed:
		case <-time.After(adminAgain):
		case <-ctx.Done():
			if maybe {
				return a, unknown("the leader did not answer")
			}
			return a, errNotLeader
		}
	}
}

// askLeaderOnce asks here or at the leader.
func (n *Node) askLeaderOnce(ctx context.Context, r adminRequest) adminAnswer {
	if n.office.Load() != nil {
		return n.administer(ctx, r)
	}
	l := n.leaderLink()
	if l == nil {
		return adminAnswer{Verdict: adminElsewhere}
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return adminAnswer{Verdict: adminElsewhere}
	}
	done := make(chan adminAnswer, 1)
	id := l.ask(frameAdmin, doc, func(f frame, err error) bool {
		a := adminAnswer{Verdict: adminUnknown}
		switch {
		case err == errNotSent:
			a.Verdict = adminElsewhere
		case err == nil && f.typ == frameAdminAnswer && json.Unmarshal(f.payload, &a) != nil:
			a = adminAnswer{Verdict: adminUnknown}
		}
		done <- a
		return true
	})
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		l.drop(id)
		return adminAnswer{Verdict: adminUnknown}
	}
}

// administer answers a node that was asked by an operator.
func (s *server) administer(f frame) error {
	var r adminRequest
	if err := json.Unmarshal(f.payload, &r); err != nil {
		return err
	}
	s.n.background(func() {
		s.open.Add(1)
		defer s.open.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		doc, err := json.Marshal(s.n.administer(ctx, r))
		if err != nil {
			doc = nil // no answer that can be read: the outcome is unknown
		}
		s.w.put(frame{frameAdminAnswer, f.id, doc})
	})
	return nil
}
