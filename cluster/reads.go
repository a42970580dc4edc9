package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

const maxHeavyReads = 8 // at a time, each over a copy of the state

// Read answers a query linearizably: from a state that holds every change that
// was answered before the read began. A read changes nothing, so that its only
// errors are [fsm.ErrNotApplied] and [fsm.ErrClosed], wrapped.
func (n *Node) Read(ctx context.Context, q fsm.Query) (fsm.Answer, error) {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	for begun := time.Now(); ; {
		if !n.enter() {
			return fsm.Answer{}, fsm.ErrClosed
		}
		changed := n.leaderChanged.wait()
		a, err := n.readOnce(ctx, q)
		n.exit()
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return a, cancelled(ctx)
		}
		if time.Since(begun) > n.cfg.tuning.leaderWait {
			return a, errNotLeader
		}
		select {
		case <-changed:
		case <-time.After(officeRetry):
		case <-ctx.Done():
			return a, cancelled(ctx)
		}
	}
}

func (n *Node) readOnce(ctx context.Context, q fsm.Query) (fsm.Answer, error) {
	if n.office.Load() != nil {
		if !n.confirmed(ctx) {
			return fsm.Answer{}, errNotLeader
		}
		return n.readHere(ctx, q)
	}
	l := n.leaderLink()
	if l == nil {
		return fsm.Answer{}, errNotLeader
	}
	doc, err := json.Marshal(q)
	if err != nil {
		return fsm.Answer{Code: fsm.CodeInvalidCommand}, nil
	}
	type reply struct {
		a   fsm.Answer
		err error
	}
	ch := make(chan reply, 1)
	id := l.ask(frameRead, doc, func(f frame, err error) bool {
		var r reply
		if r.err = err; err == nil {
			r.a, r.err = decodeAnswer(f.payload)
		}
		ch <- r
		return true
	})
	select {
	case r := <-ch:
		return r.a, r.err
	case <-ctx.Done():
		l.drop(id)
		return fsm.Answer{}, cancelled(ctx)
	}
}

// readHere answers from this node's state.
func (n *Node) readHere(ctx context.Context, q fsm.Query) (fsm.Answer, error) {
	if q.Light() {
		return n.replica.read(q), nil
	}
	select {
	case n.heavyReads <- struct{}{}:
		defer func() { <-n.heavyReads }()
		return n.replica.read(q), nil
	case <-ctx.Done():
		return fsm.Answer{}, cancelled(ctx)
	}
}

// confirmed waits for leadership to be verified.
func (n *Node) confirmed(ctx context.Context) bool {
	ch := make(chan bool, 1)
	n.confirmer.confirm(func(leads bool) { ch <- leads })
	select {
	case leads := <-ch:
		return leads
	case <-ctx.Done():
		return false
	}
}
