package fsm

// expiry is the next thing in a queue that falls due.
type expiry struct {
	atMs int64
	kind expiryKind
}

type expiryKind uint8

// In the order in which they take place at equal times.
const (
	retentionEnds expiryKind = iota
	leaseEnds
	windowEnds
)

// nextDue is the earliest expiry in the queue, at never where there is none.
func (q *queue) nextDue() expiry {
	next := expiry{atMs: never}
	if _, oldest, ok := q.messages.Min(); ok {
		next = expiry{oldest.createdAtMs + q.retentionMs, retentionEnds}
	}
	if first, ok := q.leases.Min(); ok && first.atMs < next.atMs {
		next = expiry{first.atMs, leaseEnds}
	}
	if q.claims.len() > 0 {
		if atMs := q.claims.oldestMs + q.windowMs(); atMs < next.atMs {
			next = expiry{atMs, windowEnds}
		}
	}
	return next
}

// sweep takes care of at most limit due expiries, the most overdue queues
// first, and returns how many it did.
func (q *queue) sweep(nowMs int64, limit int) int {
	done := 0
	for ; done < limit; done++ {
		next := q.nextDue()
		if next.atMs > nowMs {
			break
		}
		switch next.kind {
		case retentionEnds:
			number, x, _ := q.messages.Min()
			q.expireMessage(number, x)
		case leaseEnds:
			first, _ := q.leases.Min()
			x, _ := q.messages.Get(first.number)
			q.expireLease(first.number, x)
		case windowEnds:
			q.claims.pop()
		}
	}
	return done
}

// sweep takes care of at most limit due expiries, in the most overdue queues and
// channels first.
func (m *Machine) sweep(limit int) {
	for limit > 0 {
		queue, channel := m.nextDue()
		switch {
		case min(queue.atMs, channel.atMs) > m.nowMs:
			return
		case queue.atMs <= channel.atMs:
			limit -= m.sweepQueue(queue.number, limit)
		default:
			limit -= m.sweepChannel(channel.name, limit)
		}
	}
}

// nextDue are the queue and the channel of which something is due first, at
// never where there is none.
func (m *Machine) nextDue() (timed, dueChannel) {
	queue, some := m.due.Min()
	if !some {
		queue.atMs = never
	}
	channel, some := m.channelsDue.Min()
	if !some {
		channel.atMs = never
	}
	return queue, channel
}

func (m *Machine) sweepChannel(name string, limit int) int {
	ch, _ := m.findChannel(name)
	done := ch.claims.sweep(m.nowMs, limit)
	m.doneChannel(ch)
	return max(done, 1)
}

// sweepQueue returns how many expiries it took care of, at least 1.
func (m *Machine) sweepQueue(number uint64, limit int) int {
	q, _ := m.queues.Get(number)
	sp, _ := m.spools.Get(q.spool)
	q, sp = m.own(q), m.ownSpool(sp)
	done := q.sweep(m.nowMs, limit)
	m.done(sp, q)
	return max(done, 1)
}

// sweepSpool takes care of everything due in a spool, so that its sums are
// exact. Only a spool that seems full needs that, and no expiry costs twice.
func (m *Machine) sweepSpool(sp *spool) {
	var numbers []uint64
	m.due.Scan(func(next timed) bool {
		if q, _ := m.queues.Get(next.number); next.atMs <= m.nowMs && q.spool == sp.name {
			numbers = append(numbers, next.number)
		}
		return next.atMs <= m.nowMs
	})
	for _, number := range numbers {
		m.sweepQueue(number, never)
	}
}

// NextDueMs is when the next expiry is due, so that somebody should apply a
// batch at or after it even without traffic.
func (m *Machine) NextDueMs() (dueMs int64, ok bool) {
	queue, channel := m.nextDue()
	if dueMs = min(queue.atMs, channel.atMs); dueMs == never {
		return 0, false
	}
	return dueMs, true
}
