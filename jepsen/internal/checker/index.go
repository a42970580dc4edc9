package checker

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// never is later than every time of a run.
const never = int64(math.MaxInt64)

// roundingMs allows for log time that counts whole milliseconds.
const roundingMs = 2

// index is the history, sorted by what the checkers look at.
type index struct {
	h         *history.History
	tolerance int64 // of real time against log time, nanoseconds
	drained   bool  // everything was received at the end

	messages  map[string]*message // by id
	ordered   []*message          // in the order of their first operation
	attempts  map[string]*attempt // by payload
	keys      map[keyName]*key
	orderKeys []keyName
	leases    map[int64]*lease // by the receive that got it
	queues    map[string]*queue
}

// keyName is a key of a queue.
type keyName struct{ queue, key string }

// message is all that happened to one message id.
type message struct {
	id         string
	generation int // number of the queue, which is new when the queue is made again
	number     int
	queue      string
	seen       []*history.Op // answers that named it, in order
	sends      []*history.Op // answered 201
	deliveries []*lease      // in log order
	byHandle   []*history.Op // discards, recovers and inspects by handle
}

// attempt is one send or ack-and-send.
type attempt struct {
	op    *history.Op
	found []*message // under which its payload was seen
}

// lease is one delivery and what was done with its token.
type lease struct {
	recv    *history.Op
	message *message
	settles []*history.Op // in order of start
	granted int64         // log time; 0 where it cannot be known
	expires int64         // log time, never where it does not
}

// key is all that happened to one key.
type key struct {
	name     keyName
	attempts []*history.Op
}

// queue is what happened to one queue name.
type queue struct {
	name         string
	leaseSeconds int // -1: not constant
	maxRetries   int
	window       int64       // nanoseconds, of its first creation
	created      *history.Op // by the first answer that says so
	updates      []*history.Op
	deletes      []*history.Op // that may have happened
	unknownRecvs []*history.Op
	gets         []*history.Op
}

func newIndex(h *history.History) *index {
	x := &index{
		h: h, tolerance: (h.Header.ClockToleranceMs + roundingMs) * int64(time.Millisecond),
		messages: map[string]*message{}, attempts: map[string]*attempt{},
		keys: map[keyName]*key{}, leases: map[int64]*lease{}, queues: map[string]*queue{},
	}
	_, x.drained = h.PhaseStart(history.PhaseEnd)
	for _, o := range h.Ops {
		x.addQueueOp(o)
		x.addMessageOp(o)
	}
	for _, o := range h.Ops {
		x.addObservation(o)
	}
	for _, m := range x.ordered {
		slices.SortStableFunc(m.deliveries, func(a, b *lease) int { return cmp.Compare(a.expires, b.expires) })
	}
	return x
}

func (x *index) queue(name string) *queue {
	q := x.queues[name]
	if q == nil {
		q = &queue{name: name, leaseSeconds: -1, maxRetries: -1}
		x.queues[name] = q
	}
	return q
}

func (x *index) addQueueOp(o *history.Op) {
	if o.Queue == "" {
		return
	}
	q := x.queue(o.Queue)
	switch o.Kind {
	case history.QueueCreate:
		if q.created == nil && o.Outcome == history.OK {
			q.created = o
		}
		if s := o.Settings; s != nil && q.leaseSeconds < 0 && s.LeaseTimeoutSeconds != nil {
			q.leaseSeconds = *s.LeaseTimeoutSeconds
			if s.MaxRetries != nil {
				q.maxRetries = *s.MaxRetries
			}
			if s.DedupWindowSeconds != nil {
				q.window = int64(*s.DedupWindowSeconds) * int64(time.Second)
			}
		}
	case history.QueueUpdate:
		if o.Applied() {
			q.updates = append(q.updates, o)
		}
	case history.QueueDelete:
		if o.Applied() {
			q.deletes = append(q.deletes, o)
		}
	case history.QueueGet:
		q.gets = append(q.gets, o)
	case history.Recv:
		if o.Outcome == history.Unknown {
			q.unknownRecvs = append(q.unknownRecvs, o)
		}
	}
}

// addMessageOp files sends, deliveries and settles.
func (x *index) addMessageOp(o *history.Op) {
	switch o.Kind {
	case history.Send, history.AckAndSend:
		x.attempts[o.Payload] = &attempt{op: o}
		if o.Key != "" {
			x.addKey(o)
		}
		if o.Status == 201 && o.MessageID != "" {
			m := x.message(o.MessageID, o.Queue)
			m.sends = append(m.sends, o)
		}
	case history.Recv:
		if o.Outcome == history.OK && o.MessageID != "" {
			x.addLease(o)
		}
	}
	if o.TokenOp == 0 {
		return
	}
	if l := x.leases[o.TokenOp]; l != nil && !o.ByHandle {
		l.settles = append(l.settles, o)
	} else if o.ByHandle && o.TokenMessage != "" {
		m := x.message(o.TokenMessage, o.Queue)
		m.byHandle = append(m.byHandle, o)
	}
}

func (x *index) addKey(o *history.Op) {
	name := keyName{o.Queue, o.Key}
	k := x.keys[name]
	if k == nil {
		k = &key{name: name}
		x.keys[name] = k
		x.orderKeys = append(x.orderKeys, name)
	}
	k.attempts = append(k.attempts, o)
}

func (x *index) addLease(o *history.Op) {
	l := &lease{recv: o, message: x.message(o.MessageID, o.Queue), expires: never}
	if !o.LeaseExpiresAt.IsZero() {
		l.expires = int64(o.LeaseExpiresAt.Sub(x.h.Header.StartedAt))
		if t := x.queue(o.Queue).leaseSeconds; t > 0 {
			l.granted = l.expires - int64(t)*int64(time.Second)
		}
	}
	x.leases[o.ID] = l
	l.message.deliveries = append(l.message.deliveries, l)
}

// addObservation notes which answers show that a message exists, and under
// which ids payloads were seen.
func (x *index) addObservation(o *history.Op) {
	if o.MessageID != "" {
		m := x.message(o.MessageID, o.Queue)
		m.seen = append(m.seen, o)
		if o.Kind == history.Recv || o.Kind == history.Inspect {
			if a := x.attempts[o.Payload]; a != nil && !slices.Contains(a.found, m) {
				a.found = append(a.found, m)
			}
		}
	}
	for _, it := range o.Items {
		m := x.message(it.ID, o.Queue)
		m.seen = append(m.seen, o)
	}
}

// message returns the record of an id, made where it is new.
func (x *index) message(id, queueName string) *message {
	m := x.messages[id]
	if m == nil {
		m = &message{id: id, queue: queueName}
		n, k, _ := strings.Cut(id, "-")
		m.generation, _ = strconv.Atoi(n) // an id that is none stays 0-0
		m.number, _ = strconv.Atoi(k)
		x.messages[id] = m
		x.ordered = append(x.ordered, m)
	}
	return m
}

// existsBy is when the message had certainly been appended.
func (m *message) existsBy() int64 {
	at := never
	for _, o := range m.seen {
		at = min(at, o.End)
	}
	return at
}

// attemptOf is the send that appended the message, nil where it is unknown.
func (x *index) attemptOf(m *message) *history.Op {
	if len(m.sends) > 0 {
		return m.sends[0]
	}
	for _, l := range m.deliveries {
		if a := x.attempts[l.recv.Payload]; a != nil {
			return a.op
		}
	}
	for _, o := range m.seen {
		if o.Kind == history.Inspect {
			if a := x.attempts[o.Payload]; a != nil {
				return a.op
			}
		}
	}
	return nil
}

// upTo is the latest time at which the operation can have taken effect.
func upTo(o *history.Op) int64 {
	if o.Outcome == history.Unknown {
		return never
	}
	return o.End
}

// mayBeDeleted reports whether the queue may have been removed after the time.
func (q *queue) mayBeDeleted(after int64) bool {
	return slices.ContainsFunc(q.deletes, func(o *history.Op) bool { return upTo(o) > after })
}

// isFinal reports whether the kind takes the message out of its queue.
func isFinal(k history.Kind) bool {
	return k == history.Ack || k == history.Discard || k == history.AckAndSend
}

// ends reports whether the kind ends a lease.
func ends(k history.Kind) bool {
	return isFinal(k) || k == history.Nack || k == history.Release || k == history.Fail
}
