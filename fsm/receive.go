package fsm

import "time"

// receiveWork bounds how many overdue messages one receive steps over. Beyond
// it the receive finds nothing more for now, rather than stall everybody else.
const receiveWork = 10_000

// receive leases the message that has been visible longest.
func (m *Machine) receive(sp *spool, c *Command) Result {
	q, ok := m.find(sp, c.Queue)
	if !ok {
		return Result{Code: CodeQueueNotFound}
	}
	work := receiveWork
	d, r := q.deliver(m.nowMs, never, &work)
	if r.Code == CodeRateLimited {
		return r
	}
	m.done(sp, q)
	r.ID, r.Moves, r.Retries, r.LeaseExpiresAtMs, r.Payload = d.ID, d.Moves, d.Retries, d.LeaseExpiresAtMs, d.Payload
	return r
}

// receiveMany leases the messages that have been visible longest, as many as
// asked for, visible, and within the queue's delivery limit. The first is
// delivered whatever its size, the others as long as they fit.
func (m *Machine) receiveMany(sp *spool, c *Command) Result {
	q, ok := m.find(sp, c.Queue)
	if !ok {
		return Result{Code: CodeQueueNotFound}
	}
	var all []Delivery
	work, left := receiveWork, int64(never)
	for uint32(len(all)) < c.Count {
		d, r := q.deliver(m.nowMs, left, &work)
		if r.Code != CodeOK && len(all) == 0 {
			m.done(sp, q)
			return r
		}
		if r.Code != CodeOK {
			break
		}
		if len(all) == 0 {
			left = int64(c.MaxBytes)
			all = make([]Delivery, 0, min(int(c.Count), dueBy(q.ready, m.nowMs)+1))
		}
		left -= int64(len(d.Payload))
		all = append(all, d)
	}
	m.done(sp, q)
	return Result{Deliveries: all}
}

// deliver leases the message that has been visible longest, if it has no more
// than maxBytes. The result's code says why there was none.
func (q *queue) deliver(nowMs, maxBytes int64, work *int) (Delivery, Result) {
	nextMicros, waitMicros := q.allowance(nowMs)
	if waitMicros > 0 {
		return Delivery{}, Result{Code: CodeRateLimited, RetryAfterMs: max(1, (waitMicros+999)/1000)}
	}
	number, x, ok := q.nextVisible(nowMs, work)
	if !ok || int64(len(x.payload)) > maxBytes {
		return Delivery{}, Result{Code: CodeEmpty}
	}
	after := x.delivered(&q.settings, nowMs)
	q.replace(number, x, after)
	q.rateMicros = nextMicros
	return Delivery{
		ID: MessageID{q.number, number}, Moves: after.moves, Retries: uint32(after.retries),
		LeaseExpiresAtMs: after.dueMs, Payload: after.payload,
	}, Result{}
}

// nextVisible returns the message that has been visible longest. What is
// overdue on the way takes place, in the order of its time, and takes from work.
func (q *queue) nextVisible(nowMs int64, work *int) (uint64, message, bool) {
	for ; *work > 0; *work-- {
		first, waiting := q.ready.Min()
		lease, leased := q.leases.Min()
		switch {
		case leased && lease.atMs <= nowMs && (!waiting || lease.atMs <= first.atMs):
			x, _ := q.messages.Get(lease.number)
			if q.gone(x, nowMs) {
				q.expireMessage(lease.number, x)
			} else {
				q.expireLease(lease.number, x)
			}
		case waiting && first.atMs <= nowMs:
			x, _ := q.messages.Get(first.number)
			if !q.gone(x, nowMs) {
				return first.number, x, true
			}
			q.expireMessage(first.number, x)
		default:
			return 0, message{}, false
		}
	}
	return 0, message{}, false
}

// allowance is the queue's delivery limit as a generic cell rate (GCRA), which
// is a token bucket without a timer: rateMicros is when the bucket is full
// again. It returns what a delivery now would make of it, and how long until
// there is a token.
func (q *queue) allowance(nowMs int64) (nextMicros, waitMicros int64) {
	limit := q.settings.RecvRateLimit
	if limit.Burst == 0 {
		return 0, 0
	}
	nowMicros := nowMs * int64(time.Millisecond/time.Microsecond)
	nextMicros = max(q.rateMicros, nowMicros) + int64(limit.IntervalMicros)
	return nextMicros, max(0, nextMicros-nowMicros-int64(limit.IntervalMicros*limit.Burst))
}

// Receivable says what a receive would find at nowMs, without changing
// anything: CodeOK where something is visible, CodeEmpty where nothing is (then
// wakeAtMs is when something will be without another command, 0 for never), or
// the refusal. visible is about how many receives could succeed, for waking as
// many; it may count messages whose retention has ended unnoticed.
func (m *Machine) Receivable(spoolName, queueName string, nowMs int64) (code Code, visible int, wakeAtMs int64) {
	nowMs = max(nowMs, m.nowMs)
	if code = m.SpoolState(spoolName); code != CodeOK {
		return code, 0, 0
	}
	q, ok := m.peek(spoolName, queueName, nowMs)
	if !ok {
		return CodeQueueNotFound, 0, 0
	}
	if _, waitMicros := q.allowance(nowMs); waitMicros > 0 {
		return CodeRateLimited, 0, 0
	}
	if visible = dueBy(q.ready, nowMs) + dueBy(q.leases, nowMs); visible > 0 {
		return CodeOK, visible, 0
	}
	for _, tree := range [...]interface{ Min() (timed, bool) }{q.ready, q.leases} {
		if first, ok := tree.Min(); ok && (wakeAtMs == 0 || first.atMs < wakeAtMs) {
			wakeAtMs = first.atMs
		}
	}
	return CodeEmpty, 0, wakeAtMs
}

// QueueName is the spool and the name of the queue of that number, for callers
// who know it from a token.
func (m *Machine) QueueName(number uint64) (spoolName, queueName string, ok bool) {
	q, ok := m.queues.Get(number)
	if !ok {
		return "", "", false
	}
	return q.spool, q.name, true
}

// peek returns the queue of that name to look at, not to change.
func (m *Machine) peek(spoolName, queueName string, nowMs int64) (*queue, bool) {
	sp, ok := m.spools.Get(spoolName)
	if !ok {
		return nil, false
	}
	number, ok := sp.queues.Get(queueName)
	if !ok {
		return nil, false
	}
	q, ok := m.queues.Get(number)
	return q, ok && !q.drained(nowMs)
}
