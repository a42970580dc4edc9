package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Receive grants the message of a queue that has been visible longest, waiting
// up to wait for one. The result's code is [fsm.CodeEmpty] where none came. A
// caller who is gone when the message is granted loses the lease again. Where ctx
// ends and nothing was granted the error is [fsm.ErrNotApplied]; it is
// [fsm.ErrUnknown] only where the leader has been asked for a message and has not
// answered.
func (n *Node) Receive(ctx context.Context, spool, queue string, wait time.Duration) (fsm.Result, error) {
	return n.obtain(ctx, fsm.Command{Op: fsm.OpReceive, Spool: spool, Queue: queue}, wait)
}

// ReceiveMany is Receive for up to count messages; beyond the first it grants as
// many as have maxBytes of payload together. It waits for one, not for count.
func (n *Node) ReceiveMany(ctx context.Context, spool, queue string, count, maxBytes uint32, wait time.Duration) (fsm.Result, error) {
	return n.obtain(ctx, fsm.Command{Op: fsm.OpReceiveMany, Spool: spool, Queue: queue, Count: count, MaxBytes: maxBytes}, wait)
}

func (n *Node) obtain(ctx context.Context, c fsm.Command, wait time.Duration) (fsm.Result, error) {
	if ctx.Err() != nil {
		return fsm.Result{}, cancelled(ctx)
	}
	deadline := time.Now().Add(wait)
	res, err := n.take(ctx, c)
	for err == nil && res.Code == fsm.CodeEmpty {
		left := time.Until(deadline)
		if left <= 0 {
			return res, nil
		}
		turn := n.await(ctx, c.Spool, c.Queue, left)
		if ctx.Err() != nil {
			turn.end()
			return fsm.Result{}, cancelled(ctx)
		}
		res, err = n.take(ctx, c)
		turn.end()
		for errors.Is(err, fsm.ErrNotApplied) && ctx.Err() == nil && time.Now().Before(deadline) {
			// Nothing was granted; the wait survives a cluster that is between leaders,
			// or has no room for writes for a moment.
			select {
			case <-time.After(officeRetry):
			case <-ctx.Done():
				return fsm.Result{}, cancelled(ctx)
			}
			res, err = n.take(ctx, c)
		}
	}
	return res, err
}

// take asks for messages once.
func (n *Node) take(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	giveBack := func(r fsm.Result) {
		if r.Code == fsm.CodeOK {
			n.giveBack(c.Spool, r)
		}
	}
	res, err := n.do(ctx, &c, giveBack)
	if err == nil && ctx.Err() != nil {
		giveBack(res)
		return fsm.Result{}, cancelled(ctx)
	}
	return res, err
}

// giveBack releases leases that nobody works on.
func (n *Node) giveBack(spool string, r fsm.Result) {
	deliveries := r.Deliveries
	if len(deliveries) == 0 {
		deliveries = []fsm.Delivery{{ID: r.ID, Moves: r.Moves}}
	}
	releases := make([]fsm.Command, len(deliveries))
	for i, d := range deliveries {
		lease := fsm.Token{Sort: fsm.Lease, Queue: d.ID.Queue, Message: d.ID.Message, Moves: d.Moves}
		releases[i] = fsm.Command{Op: fsm.OpRelease, Spool: spool, Token: lease}
	}
	n.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.tuning.callTimeout)
		defer cancel()
		for _, o := range n.DoAll(ctx, releases) {
			if o.Err != nil {
				n.log.Warn("a message granted to a client that had gone waits for its lease to end", "error", o.Err)
			}
		}
	})
}

// turn is the right to ask next, which ends when it has been used.
type turn struct{ end func() }

// await returns when something may be visible in the queue, when the time is
// over, or when the leader changed.
func (n *Node) await(ctx context.Context, spool, queue string, d time.Duration) turn {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	changed := n.leaderChanged.wait()
	var t turn
	leader := n.leaderLink()
	switch {
	case n.office.Load() != nil:
		w := n.waits.add(spool, queue, func(bool) { wake() })
		t.end = func() { n.waits.end(w) }
	case leader != nil:
		id := leader.ask(frameWait, appendNames(nil, spool, queue), func(frame, error) bool { wake(); return true })
		t.end = func() { leader.forget(id) }
	default:
		t.end = func() {}
		d = min(d, officeRetry)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	case <-n.closing:
	}
	return t
}

// leaderLink is the link to the leader, nil where it is this node, unknown, or
// not reached.
func (n *Node) leaderLink() *link {
	id := n.leaderID()
	if id == "" || id == n.self {
		return nil
	}
	l := n.mesh.link(id)
	if l == nil {
		n.mesh.want(id)
	}
	return l
}
