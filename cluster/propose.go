package cluster

import (
	"context"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Do proposes one command and waits for its result. The error is exactly one of
// [fsm.ErrNotApplied], [fsm.ErrUnknown] and [fsm.ErrClosed], wrapped.
func (n *Node) Do(ctx context.Context, c *fsm.Command) (fsm.Result, error) {
	return n.do(ctx, c, nil)
}

// do is Do; late takes a result that comes after the caller has given up.
func (n *Node) do(ctx context.Context, c *fsm.Command, late func(fsm.Result)) (fsm.Result, error) {
	call := newCall(1, late)
	call.items[0].cmd = c
	n.carry(ctx, call, callID{})
	return call.outs[0].Result, call.outs[0].Err
}

// DoAll proposes commands together and waits for all. Each has an outcome of its
// own, as from Do; they are applied in their order, but not all at once. Two with
// the same key are not in each other's way: the second is a duplicate of the first.
func (n *Node) DoAll(ctx context.Context, cs []fsm.Command) []fsm.Outcome {
	call := newCall(len(cs), nil)
	for i := range cs {
		call.items[i].cmd = &cs[i]
	}
	n.carry(ctx, call, callID{number: n.calls.Add(1)})
	return call.outs
}

// carry offers the commands of a call until each has its outcome.
//
// While there is provably no log that holds a command, it is offered again, so
// that a change of leader costs time rather than errors.
func (n *Node) carry(ctx context.Context, c *call, id callID) {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	items := c.begin(id)
	for begun := time.Now(); len(items) > 0; {
		if !n.enter() {
			c.end(items, fsm.ErrClosed)
			return
		}
		changed := n.leaderChanged.wait()
		c.expect(items)
		n.offer(items)
		c.wait(ctx)
		n.exit()
		if items = c.again(items); len(items) == 0 || time.Since(begun) > n.cfg.tuning.leaderWait {
			return
		}
		select {
		case <-changed:
		case <-time.After(officeRetry):
		case <-ctx.Done():
			c.end(items, cancelled(ctx))
			return
		}
	}
}

// offer offers commands once, here or at the leader. It may reorder the slice.
func (n *Node) offer(items []*item) {
	switch leader := n.leaderID(); {
	case n.office.Load() != nil:
		n.accept(items...)
	case leader == "" || leader == n.self:
		refuse(items, errNotLeader)
	default:
		n.forwarder.submit(items...)
	}
}

// bounded gives a context without a deadline one.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, n.cfg.tuning.callTimeout)
}

// accept takes commands on the leader. A receive that would find nothing gets no
// entry in the log. The slice is used up.
func (n *Node) accept(items ...*item) {
	batch := items[:0]
	for _, i := range items {
		if receives(i.cmd) && !n.worthwhile(i.cmd) {
			n.confirmer.confirm(func(leads bool) { n.answerReceive(i, leads) })
		} else {
			batch = append(batch, i)
		}
	}
	if len(batch) > 0 {
		n.batcher.submit(batch...)
	}
}

func receives(c *fsm.Command) bool { return c.Op == fsm.OpReceive || c.Op == fsm.OpReceiveMany }

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
	case c.Op < fsm.OpInit || c.Op > fsm.OpReceiveMany,
		c.Op != fsm.OpInit && !fsm.ValidName(c.Spool),
		c.Queue != "" && !fsm.ValidName(c.Queue),
		!c.Patch.Valid(), len(c.Payload) > fsm.MaxPayloadBytes, len(c.UID) > 64, len(c.ClusterID) > 64:
		return false
	}
	return true
}
