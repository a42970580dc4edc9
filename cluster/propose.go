package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Do proposes one command and waits for its result. The error is exactly one of
// [fsm.ErrNotApplied], [fsm.ErrUnknown] and [fsm.ErrClosed], wrapped.
func (n *Node) Do(ctx context.Context, c *fsm.Command) (fsm.Result, error) {
	return n.do(ctx, c, nil)
}

// do is Do; late takes a result that comes after the caller has given up.
//
// While there is provably no log that holds the command, it is offered again, so
// that a change of leader costs time rather than errors.
func (n *Node) do(ctx context.Context, c *fsm.Command, late func(fsm.Result)) (fsm.Result, error) {
	if !wellFormed(c) {
		return fsm.Result{Code: fsm.CodeInvalidCommand}, nil
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	for begun := time.Now(); ; {
		if !n.enter() {
			return fsm.Result{}, fsm.ErrClosed
		}
		changed := n.leaderChanged.wait()
		r, err := n.attempt(ctx, c, late)
		n.exit()
		if err != errNotLeader {
			return r, err
		}
		if time.Since(begun) > n.cfg.tuning.leaderWait {
			return fsm.Result{}, errNotLeader
		}
		select {
		case <-changed:
		case <-time.After(officeRetry):
		case <-ctx.Done():
			return fsm.Result{}, cancelled(ctx)
		}
	}
}

// attempt offers the command once, here or at the leader.
func (n *Node) attempt(ctx context.Context, c *fsm.Command, late func(fsm.Result)) (fsm.Result, error) {
	call := newCall(c)
	switch leader := n.leaderID(); {
	case n.office.Load() != nil:
		n.accept(&call.item)
	case leader == "" || leader == n.self:
		return fsm.Result{}, errNotLeader
	default:
		n.forwarder.submit(&call.item)
	}
	select {
	case <-call.done:
		return call.result, call.err
	case <-ctx.Done():
	}
	if call.item.withdraw() {
		return fsm.Result{}, cancelled(ctx)
	}
	if call.abandon(late) {
		return fsm.Result{}, fmt.Errorf("%w: %w", fsm.ErrUnknown, context.Cause(ctx))
	}
	return call.result, call.err
}

// bounded gives a context without a deadline one.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, n.cfg.tuning.callTimeout)
}

// accept takes commands on the leader. A receive that would find nothing gets no
// entry in the log.
func (n *Node) accept(items ...*item) {
	batch := items[:0:0]
	for _, i := range items {
		if i.cmd.Op == fsm.OpReceive && !n.worthwhile(i.cmd) {
			n.confirmer.confirm(func(leads bool) { n.answerReceive(i, leads) })
		} else {
			batch = append(batch, i)
		}
	}
	if len(batch) > 0 {
		n.batcher.submit(batch...)
	}
}

// worthwhile reports whether only the machine can answer a receive.
func (n *Node) worthwhile(c *fsm.Command) bool {
	code, _, _, _ := n.replica.receivable(c.Spool, c.Queue)
	return code == fsm.CodeOK || code == fsm.CodeRateLimited // the machine knows for how long
}

// answerReceive answers, after leadership was verified, a receive for which
// there was nothing.
func (n *Node) answerReceive(i *item, leads bool) {
	code, _, _, _ := n.replica.receivable(i.cmd.Spool, i.cmd.Queue)
	switch {
	case !leads:
		refuse([]*item{i}, errNotLeader)
	case code == fsm.CodeOK || code == fsm.CodeRateLimited:
		n.batcher.submit(i)
	case i.take():
		i.settle(fsm.Result{Code: code}, nil)
	}
}

// wellFormed refuses what would not come out of the log as it went in: an entry
// that cannot be read stops every node.
func wellFormed(c *fsm.Command) bool {
	switch {
	case c.Op < fsm.OpInit || c.Op > fsm.OpAckAndSend,
		c.Op != fsm.OpInit && !fsm.ValidName(c.Spool),
		c.Queue != "" && !fsm.ValidName(c.Queue),
		!c.Patch.Valid(), len(c.Payload) > fsm.MaxPayloadBytes, len(c.UID) > 64, len(c.ClusterID) > 64:
		return false
	}
	return true
}
