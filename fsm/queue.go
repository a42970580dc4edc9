package fsm

import (
	"sort"

	"github.com/tidwall/btree"
)

// queue is a queue with everything in it. A machine changes only queues of its
// own epoch; an image holds on to the others (see Machine.own).
type queue struct {
	epoch       uint64
	number      uint64
	spool       string
	name        string
	uid         string
	createdAtMs int64
	identity    digest // of the fields above
	state       QueueState
	settings    Settings
	nextMessage uint64
	rateMicros  int64 // see allowance
	retentionMs int64 // in effect: the setting, or the spool's limit
	totals      Totals

	messages  *btree.Map[uint64, message]
	ready     *btree.BTreeG[timed] // waiting messages by the time they are visible from
	leases    *btree.BTreeG[timed] // pending messages by lease expiry, where they have one
	claims    claims
	pending   uint64
	failed    uint64
	dataBytes uint64
	content   uint64 // sum of the messages' digests

	counted queueCounts
}

// queueCounts is what a queue has entered into sums outside of it.
type queueCounts struct {
	messages, dataBytes, keys uint64
	digest                    uint64
	dueMs                     int64
}

// timed is a message, or a queue, that something happens to at a time.
type timed struct {
	atMs   int64
	number uint64
}

func lessTimed(a, b timed) bool {
	if a.atMs != b.atMs {
		return a.atMs < b.atMs
	}
	return a.number < b.number
}

func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// newQueue returns an empty queue of the machine's.
func (m *Machine) newQueue(number uint64, spool, name string, createdAtMs int64) *queue {
	return &queue{
		epoch:       m.epoch,
		number:      number,
		spool:       spool,
		name:        name,
		uid:         m.newUID(number),
		createdAtMs: createdAtMs,
		identity:    digest(3).word(number).text(spool).text(name).word(uint64(createdAtMs)),
		state:       QueueActive,
		nextMessage: 1,
		messages:    new(btree.Map[uint64, message]),
		ready:       newTree(lessTimed),
		leases:      newTree(lessTimed),
		claims:      newClaims(),
		counted:     queueCounts{dueMs: never},
	}
}

// fork returns a copy that can change while q stays as it is.
func (q *queue) fork(epoch uint64) *queue {
	c := *q
	c.epoch = epoch
	c.messages = q.messages.Copy()
	c.ready = q.ready.Copy()
	c.leases = q.leases.Copy()
	c.claims = q.claims.copy()
	return &c
}

func (q *queue) digest() uint64 {
	s, t := &q.settings, &q.totals
	h := q.identity.word(uint64(q.state)).
		word(uint64(s.LeaseTimeoutSeconds)).word(uint64(s.MaxRetries)).word(uint64(s.DedupWindowSeconds)).
		word(uint64(s.RetentionSeconds)).word(s.RecvRateLimit.IntervalMicros).word(s.RecvRateLimit.Burst).
		word(q.nextMessage).word(uint64(q.rateMicros)).word(q.content).word(q.claims.content)
	for _, n := range [...]uint64{t.Added, t.Acked, t.Nacked, t.Released, t.Failed, t.Discarded, t.Expired} {
		h = h.word(n)
	}
	return uint64(h)
}

// Every change of a message goes through insert, replace or remove, which keep
// the indexes, the counts and the content digest.

func (q *queue) insert(number uint64, x message) {
	q.messages.Load(number, x)
	q.dataBytes += uint64(len(x.payload))
	q.index(number, x)
}

func (q *queue) replace(number uint64, old, x message) {
	q.unindex(number, old)
	q.messages.Set(number, x)
	q.index(number, x)
}

func (q *queue) remove(number uint64, x message) {
	q.unindex(number, x)
	q.messages.Delete(number)
	q.dataBytes -= uint64(len(x.payload))
}

func (q *queue) index(number uint64, x message) {
	q.content += x.digest(number)
	switch x.state {
	case StateVisible:
		q.ready.Set(timed{x.dueMs, number})
	case StatePending:
		q.pending++
		if x.dueMs != 0 {
			q.leases.Set(timed{x.dueMs, number})
		}
	case StateFailed:
		q.failed++
	}
}

func (q *queue) unindex(number uint64, x message) {
	q.content -= x.digest(number)
	switch x.state {
	case StateVisible:
		q.ready.Delete(timed{x.dueMs, number})
	case StatePending:
		q.pending--
		if x.dueMs != 0 {
			q.leases.Delete(timed{x.dueMs, number})
		}
	case StateFailed:
		q.failed--
	}
}

// remembered returns the claim of a key whose window is not over.
func (q *queue) remembered(key Fingerprint, nowMs int64) (claim, bool) {
	c, ok := q.claims.get(key)
	return c, ok && nowMs < c.atMs+q.windowMs()
}

func (q *queue) windowMs() int64 { return int64(q.settings.DedupWindowSeconds) * 1000 }

// remember claims a free key for a message. A claim of the key that is over but
// not yet swept goes first, with all that are older, so that claims and their
// order stay in step.
func (q *queue) remember(key Fingerprint, number uint64, nowMs int64) {
	for _, stale := q.claims.get(key); stale; _, stale = q.claims.get(key) {
		q.claims.pop()
	}
	q.claims.add(claim{key: key, message: number, atMs: nowMs})
}

// gone reports whether retention has ended for x, noticed or not.
func (q *queue) gone(x message, nowMs int64) bool { return x.createdAtMs+q.retentionMs <= nowMs }

// drained reports whether a draining queue has no message left at nowMs. The
// newest message outlives all others.
func (q *queue) drained(nowMs int64) bool {
	if q.state != QueueDraining {
		return false
	}
	_, newest, some := q.messages.Max()
	return !some || q.gone(newest, nowMs)
}

// expireLease does what the end of a lease does.
func (q *queue) expireLease(number uint64, x message) message {
	after := x.afterLease()
	if after.state == StateFailed {
		q.totals.Failed++
	}
	q.replace(number, x, after)
	return after
}

// expireMessage does what the end of retention does. A lease that ended before
// counts first.
func (q *queue) expireMessage(number uint64, x message) {
	if x.leaseOver(x.createdAtMs + q.retentionMs - 1) {
		x = q.expireLease(number, x)
	}
	q.remove(number, x)
	q.totals.Expired++
}

// live returns a message as it is at nowMs, after whatever is due for it, and
// whether anything was.
func (q *queue) live(number uint64, nowMs int64) (x message, ok, noticed bool) {
	x, ok = q.messages.Get(number)
	switch {
	case !ok:
		return x, false, false
	case q.gone(x, nowMs):
		q.expireMessage(number, x)
		return x, false, true
	case x.leaseOver(nowMs):
		return q.expireLease(number, x), true, true
	default:
		return x, true, false
	}
}

// dueBy is how many entries of a tree ordered by time are due.
func dueBy(tree *btree.BTreeG[timed], nowMs int64) int {
	if first, ok := tree.Min(); !ok || first.atMs > nowMs {
		return 0
	}
	return sort.Search(tree.Len(), func(i int) bool {
		t, _ := tree.GetAt(i)
		return t.atMs > nowMs
	})
}
