package checker

import (
	"fmt"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// lookBack is how many deliveries of one message are compared with a new one.
const lookBack = 40

// checkLeases: at most one holder at a time, none after the last settle, none
// before a delay is over, and every retry counted once.
func checkLeases(x *index, r *report) {
	r.Checked = len(x.leases)
	for _, m := range x.ordered {
		for j, l := range m.deliveries {
			checkDelay(x, r, m, l)
			checkParked(x, r, m, l)
			for i := max(0, j-lookBack); i < j; i++ {
				checkExclusive(x, r, m.deliveries[i], l)
			}
			if before := m.deliveredBefore(j); before != nil {
				checkExpiry(x, r, before, l)
				checkRetries(x, r, before, l)
			}
		}
	}
}

// deliveredBefore is the delivery before the numbered one in log order, nil
// where that is not certain: of two in one millisecond, either can be first.
func (m *message) deliveredBefore(j int) *lease {
	d := m.deliveries
	if j < 1 || d[j].granted == d[j-1].granted || j > 1 && d[j-1].granted == d[j-2].granted {
		return nil
	}
	return d[j-1]
}

// heldUntil is a time up to which the lease was certainly held, and the
// operation that may have ended it then, if any.
func (l *lease) heldUntil(x *index) (int64, *history.Op) {
	until, by := never, (*history.Op)(nil)
	expires := l.expires
	for _, o := range l.settles {
		switch {
		case o.Kind == history.Renew && o.Outcome == history.OK:
			expires = max(expires, x.logTime(o.LeaseExpiresAt))
		case !ends(o.Kind) || !o.Applied():
		case o.Outcome == history.OK && isFinal(o.Kind):
			return never, o // gone: nobody holds it again
		case o.Outcome == history.OK:
			return o.Start, o
		case until == never:
			until, by = o.Start, o
		}
	}
	if expires != never && expires-x.tolerance < until {
		return expires - x.tolerance, nil
	}
	return until, by
}

// logTime is an answered time on the history's clock.
func (x *index) logTime(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return int64(t.Sub(x.h.Header.StartedAt))
}

// checkExclusive: one of two leases had ended when the other was granted.
func checkExclusive(x *index, r *report, a, b *lease) {
	untilA, byA := a.heldUntil(x)
	untilB, byB := b.heldUntil(x)
	if untilA <= b.recv.End || untilB <= a.recv.End {
		return
	}
	id := a.message.id
	switch {
	case untilA == never && byA != nil && b.recv.Start > byA.End:
		r.add("delivered-after-settle", fmt.Sprintf("%s was settled for good by %s, and delivered again", id, byA.Kind), a.recv, byA, b.recv)
	case untilB == never && byB != nil && a.recv.Start > byB.End:
		r.add("delivered-after-settle", fmt.Sprintf("%s was settled for good by %s, and delivered again", id, byB.Kind), b.recv, byB, a.recv)
	default:
		r.add("held-twice", fmt.Sprintf("two receivers held %s at the same time", id), a.recv, byA, b.recv, byB)
	}
}

// checkExpiry: in log time, the next lease was granted no earlier than the
// one before had ended.
func checkExpiry(x *index, r *report, a, b *lease) {
	if b.granted == 0 || a.expires == never {
		return
	}
	expires := a.expires
	for _, o := range a.settles {
		if ends(o.Kind) && o.Applied() && o.Start < b.recv.End {
			return
		}
		if o.Kind == history.Renew && o.Outcome == history.OK {
			expires = max(expires, x.logTime(o.LeaseExpiresAt))
		}
	}
	if b.granted < expires {
		r.add("expired-early", fmt.Sprintf("a lease of %s ended %v before its time, and the message was granted again", a.message.id, time.Duration(expires-b.granted)), a.recv, b.recv)
	}
}

// checkDelay: nothing is delivered before its delay is over.
func checkDelay(x *index, r *report, m *message, l *lease) {
	early := func(o *history.Op) bool {
		return l.recv.End < o.Start+int64(o.DelaySeconds)*int64(time.Second)-x.tolerance
	}
	if sent := x.attemptOf(m); sent != nil && sent.DelaySeconds > 0 && early(sent) {
		r.add("delivered-early", fmt.Sprintf("%s was sent with a delay of %d s, and delivered before that", m.id, sent.DelaySeconds), sent, l.recv)
	}
	for _, other := range m.deliveries {
		for _, o := range other.settles {
			if o.Kind == history.Release && o.Outcome == history.OK && o.DelaySeconds > 0 && o.End < l.recv.Start && early(o) {
				r.add("delivered-early", fmt.Sprintf("%s was released with a delay of %d s, and delivered before that", m.id, o.DelaySeconds), o, l.recv)
			}
		}
	}
}

// checkParked: a failed message is delivered only after a recover.
func checkParked(x *index, r *report, m *message, l *lease) {
	limit := x.queue(m.queue).maxRetries
	for _, other := range m.deliveries {
		for _, o := range other.settles {
			parks := o.Kind == history.Fail || o.Kind == history.Nack && limit >= 0 && other.recv.Retries >= limit
			if parks && o.Outcome == history.OK && o.End < l.recv.Start && !m.mayBeRecovered(o.Start, l.recv.End) {
				r.add("failed-but-delivered", fmt.Sprintf("%s had failed by %s, nobody recovered it, and it was delivered", m.id, o.Kind), other.recv, o, l.recv)
				return
			}
		}
	}
}

func (m *message) mayBeRecovered(after, before int64) bool {
	for _, o := range m.byHandle {
		if o.Kind == history.Recover && o.Applied() && upTo(o) > after && o.Start < before {
			return true
		}
	}
	return false
}

// recvGrace is how long after its end a receive of unknown outcome may still
// be granted.
const recvGrace = int64(20 * time.Second)

// checkRetries: between two deliveries that follow one another, the count
// grew as what happened to the first says. A receive whose answer was lost
// may have come between.
func checkRetries(x *index, r *report, a, b *lease) {
	q := x.queue(a.message.queue)
	if b.granted == 0 || a.message.mayBeRecovered(a.recv.Start, b.recv.End) {
		return
	}
	low, high := a.retriesAfter(b)
	if q.lostRecv(a.recv.Start, b.recv.End) {
		// The lost lease itself, and all that its expiry counts.
		high = max(high, b.recv.Retries)
	}
	low, high = low+a.recv.Retries, high+a.recv.Retries
	if b.recv.Retries < low || b.recv.Retries > high {
		text := fmt.Sprintf("%s was delivered with %d retries and then with %d; what happened in between makes it %d", a.message.id, a.recv.Retries, b.recv.Retries, low)
		if low != high {
			text += fmt.Sprintf(" to %d", high)
		}
		ops := []*history.Op{a.recv}
		r.add("retries-miscounted", text, append(append(ops, a.settles...), b.recv)...)
	}
}

// lostRecv reports whether a receive whose answer was lost may have been
// granted in between.
func (q *queue) lostRecv(after, before int64) bool {
	for _, o := range q.unknownRecvs {
		if o.End+recvGrace > after && o.Start < before {
			return true
		}
	}
	return false
}

// retriesAfter is by how much the count may have grown when b was granted.
func (a *lease) retriesAfter(b *lease) (low, high int) {
	low, high = 1, 1 // its lease ended by itself
	for _, o := range a.settles {
		if !ends(o.Kind) || !o.Applied() || o.Start > b.recv.End {
			continue
		}
		counts := 0
		if o.Kind == history.Nack {
			counts = 1
		}
		if o.Outcome == history.OK {
			return counts, counts
		}
		low = min(low, counts)
	}
	return low, high
}
