package checker

import (
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// checkMessages: what was acknowledged is there, once, and nothing else is.
func checkMessages(x *index, r *report) {
	r.Checked = len(x.ordered)
	for _, m := range x.ordered {
		checkIdentity(x, r, m)
		checkGhost(x, r, m)
		checkLost(x, r, m)
	}
	for _, o := range x.h.Ops {
		if a := x.attempts[o.Payload]; a != nil && a.op == o {
			checkAttempt(r, a)
		}
	}
}

// checkIdentity: one id is one payload, which somebody sent.
func checkIdentity(x *index, r *report, m *message) {
	var first *history.Op
	for _, o := range m.seen {
		// A duplicate's answer names the original, whose payload is another.
		if o.Status != 201 && o.Kind != history.Recv && o.Kind != history.Inspect {
			continue
		}
		if first == nil {
			first = o
		}
		if o.Payload != first.Payload {
			r.add("id-used-twice", fmt.Sprintf("%s is the id of the payload %q and of the payload %q", m.id, first.Payload, o.Payload), first, o)
			return
		}
		a := x.attempts[o.Payload]
		switch {
		case a == nil:
			r.add("never-sent", fmt.Sprintf("%s has the payload %q, which nobody sent", m.id, o.Payload), o)
			return
		case o.Kind == history.Recv && a.op.Queue != o.Queue:
			r.add("wrong-queue", fmt.Sprintf("%s was sent to %s and delivered from %s", m.id, a.op.Queue, o.Queue), a.op, o)
			return
		}
	}
}

// checkGhost: nothing of a removed queue is delivered.
func checkGhost(x *index, r *report, m *message) {
	by := m.existsBy()
	for _, d := range x.queue(m.queue).deletes {
		if d.Outcome != history.OK || d.DeleteMode != "force" || d.Start < by {
			continue
		}
		for _, l := range m.deliveries {
			if l.recv.Start > d.End {
				r.add("of-a-removed-queue", fmt.Sprintf("%s was delivered after its queue had been removed", m.id), m.seen[0], d, l.recv)
				return
			}
		}
	}
}

// checkAttempt: the answer to a send agrees with what was found.
func checkAttempt(r *report, a *attempt) {
	if len(a.found) == 0 {
		return
	}
	m := a.found[0]
	shows := m.seen[0]
	for _, o := range m.seen {
		if o.Payload == a.op.Payload && o != a.op {
			shows = o
			break
		}
	}
	switch {
	case len(a.found) > 1:
		r.add("appended-twice", fmt.Sprintf("one send was appended as %s and as %s", a.found[0].id, a.found[1].id), a.op, shows, a.found[1].seen[0])
	case a.op.Outcome == history.Refused:
		r.add("refused-but-there", fmt.Sprintf("a send was answered %d, which promises that nothing happened, and is there as %s", a.op.Status, m.id), a.op, shows)
	case a.op.Status == 200:
		r.add("duplicate-but-there", fmt.Sprintf("a send was called a duplicate, and its own payload is there as %s", m.id), a.op, shows)
	case a.op.Status == 201 && a.op.MessageID != m.id:
		r.add("wrong-id", fmt.Sprintf("a send was answered %s, and is there as %s", a.op.MessageID, m.id), a.op, shows)
	}
}

// checkLost: a message goes only by what clients did to it.
func checkLost(x *index, r *report, m *message) {
	if !x.drained || m.queue == "" || m.generation == 0 {
		return
	}
	shown := slices.ContainsFunc(m.seen, func(o *history.Op) bool {
		return o.Status == 201 || o.Kind == history.Recv || o.Kind == history.ReadItems
	})
	if !shown || x.queue(m.queue).mayBeDeleted(m.seen[0].Start) || x.mayBeGone(m) {
		return
	}
	last := m.seen[len(m.seen)-1]
	r.add("lost", fmt.Sprintf("%s was there, was never settled for good, and could not be received at the end", m.id), m.seen[0], last)
}

// mayBeGone reports whether something took the message out of its queue, or
// may have.
func (x *index) mayBeGone(m *message) bool {
	for _, l := range m.deliveries {
		if slices.ContainsFunc(l.settles, x.mayRemove) {
			return true
		}
	}
	return slices.ContainsFunc(m.byHandle, x.mayRemove)
}

// mayRemove reports whether the operation took its message away, or may have.
func (x *index) mayRemove(o *history.Op) bool {
	if !isFinal(o.Kind) || !o.Applied() {
		return false
	}
	if o.Kind != history.AckAndSend || o.Outcome == history.OK {
		return true
	}
	// An ack-and-send of unknown outcome took the message along only if what
	// it sends is there.
	return len(x.attempts[o.Payload].found) > 0 || x.queue(o.Queue).mayBeDeleted(o.Start)
}
