package checker

import (
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// checkSettles: a token works while it names the message as it is, and then
// no more.
func checkSettles(x *index, r *report) {
	for _, o := range x.h.Ops {
		l := x.leases[o.ID]
		if l == nil {
			continue
		}
		for i, s := range l.settles {
			r.Checked++
			if s.Outcome == history.OK {
				checkTooLate(x, r, l, s, l.settles[:i])
			} else if s.ErrorKind == "stale_token" {
				checkTooEarly(x, r, l, s, l.settles[:i])
			}
		}
	}
	for _, m := range x.ordered {
		for i, o := range m.byHandle {
			r.Checked++
			checkHandle(x, r, m, o, m.byHandle[:i])
		}
	}
}

// checkTooLate: what a lease did, it could still do.
func checkTooLate(x *index, r *report, l *lease, s *history.Op, before []*history.Op) {
	expires := l.expires
	for _, o := range before {
		if !o.Applied() {
			continue
		}
		if o.Kind == history.Renew {
			if o.Outcome == history.Unknown {
				expires = never
			} else {
				expires = max(expires, x.logTime(o.LeaseExpiresAt))
			}
		}
		if o.Outcome == history.OK && ends(o.Kind) && (ends(s.Kind) || s.Start > o.End) {
			r.add("settled-twice", fmt.Sprintf("one lease of %s did %s and then %s", l.message.id, o.Kind, s.Kind), l.recv, o, s)
			return
		}
	}
	if expires != never && s.Start > expires+x.tolerance {
		r.add("expired-lease-worked", fmt.Sprintf("a lease of %s had expired, and %s worked", l.message.id, s.Kind), l.recv, s)
		return
	}
	for _, other := range l.message.deliveries {
		if other.granted > l.granted && other.recv.End < s.Start {
			r.add("replaced-lease-worked", fmt.Sprintf("%s had been granted to another receiver, and %s with the old lease worked", l.message.id, s.Kind), l.recv, other.recv, s)
			return
		}
	}
}

// checkTooEarly: a lease that is called stale had ended, or may have.
func checkTooEarly(x *index, r *report, l *lease, s *history.Op, before []*history.Op) {
	expires := l.expires
	for _, o := range before {
		if ends(o.Kind) && o.Applied() {
			return
		}
		if o.Kind == history.Renew && o.Outcome == history.OK {
			expires = max(expires, x.logTime(o.LeaseExpiresAt))
		}
	}
	if s.End < expires-x.tolerance && !x.queue(l.recv.Queue).mayBeDeleted(l.recv.Start) {
		r.add("valid-lease-refused", fmt.Sprintf("a lease of %s was still running, and %s was answered stale_token", l.message.id, s.Kind), l.recv, s)
	}
}

// checkHandle: a handle is stale once its message moved.
func checkHandle(x *index, r *report, m *message, o *history.Op, before []*history.Op) {
	if o.Outcome != history.OK {
		return
	}
	issued := x.h.Op(o.TokenOp)
	for _, p := range before {
		if p.Outcome == history.OK && p.Kind != history.Inspect && p.TokenOp == o.TokenOp && p.End < o.Start {
			r.add("stale-handle-worked", fmt.Sprintf("%s of %s made its handle stale, and %s with it worked", p.Kind, m.id, o.Kind), issued, p, o)
			return
		}
	}
	for _, l := range m.deliveries {
		if issued != nil && l.recv.Start > issued.End && l.recv.End < o.Start {
			r.add("stale-handle-worked", fmt.Sprintf("%s had been delivered, and %s with an older handle worked", m.id, o.Kind), issued, l.recv, o)
			return
		}
		if o.Kind == history.Discard && l.recv.Start > o.End {
			r.add("delivered-after-discard", fmt.Sprintf("%s was discarded by its handle, and delivered", m.id), o, l.recv)
			return
		}
	}
}

// checkAtomicity: an ack-and-send did both, or neither.
func checkAtomicity(x *index, r *report) {
	for _, o := range x.h.Ops {
		if o.Kind != history.AckAndSend {
			continue
		}
		r.Checked++
		from, found := x.messages[o.TokenMessage], x.attempts[o.Payload].found
		if o.Outcome == history.OK && x.drained && len(found) == 0 && !x.queue(o.Queue).mayBeDeleted(o.Start) && !slices.ContainsFunc(x.messages[o.MessageID].byHandle, x.mayRemove) {
			r.add("acked-not-sent", fmt.Sprintf("an ack-and-send acked %s, and what it sent is nowhere", o.TokenMessage), o)
		}
		if len(found) == 0 || from == nil {
			continue
		}
		by := found[0].existsBy()
		for _, l := range from.deliveries {
			if l.recv.Start > by {
				r.add("sent-not-acked", fmt.Sprintf("an ack-and-send appended %s, and %s, which it acked, was delivered again", found[0].id, o.TokenMessage), o, found[0].seen[0], l.recv)
				break
			}
			for _, s := range l.settles {
				if s != o && isFinal(s.Kind) && s.Outcome == history.OK {
					r.add("sent-not-acked", fmt.Sprintf("an ack-and-send appended %s, and %s, which it acked, was settled by %s as well", found[0].id, o.TokenMessage, s.Kind), o, found[0].seen[0], s)
				}
			}
		}
	}
}

// checkAnswers: statuses and kinds are those that the contract names.
func checkAnswers(x *index, r *report) {
	for _, o := range x.h.Ops {
		r.Checked++
		switch {
		case o.ErrorKind == "queue_not_found" && x.mustExist(o):
			r.add("queue-lost", fmt.Sprintf("%s had been made, nobody removed it, and a call was answered that it does not exist", o.Queue), x.queue(o.Queue).created, o)
		case o.Kind == history.Send && o.Status == 200 && o.Key == "":
			r.add("duplicate-without-key", "a send without a key was called a duplicate", o)
		case o.Expect == "invalid_token" && (o.Outcome == history.OK || o.Outcome == history.Refused && o.Status != 0 && o.Status != 503 && o.ErrorKind != "invalid_token"):
			r.add("bad-token-taken", fmt.Sprintf("something that is no token was answered %d %s", o.Status, o.ErrorKind), o)
		case o.Status == 500 && o.ErrorKind != "operation_unconfirmed" && o.Outcome == history.Unknown && o.Error != "":
			r.add("internal-error", fmt.Sprintf("a call was answered 500 without saying that its outcome is unknown: %s", o.Error), o)
		case o.Status == 401 || o.Status == 402 || o.Status == 403:
			r.add("not-let-in", fmt.Sprintf("a call with a good key was answered %d", o.Status), o)
		case o.Status == 400 && o.Expect == "" && !o.StaleRead:
			r.add("bad-request", fmt.Sprintf("a good call was answered 400: %s", o.Error), o)
		}
	}
}

// mustExist reports whether the operation's queue had been made before, and
// cannot have been removed.
func (x *index) mustExist(o *history.Op) bool {
	q := x.queue(o.Queue)
	return q.created != nil && q.created.End < o.Start && len(q.deletes) == 0
}
