package fsm

import "time"

// receiveWork bounds how many overdue messages one receive steps over. Beyond
// it the receive finds nothing for now, rather than stall everybody else.
const receiveWork = 10_000

// receive leases the message that has been visible longest.
func (m *Machine) receive(sp *spool, c *Command) Result {
	q, ok := m.find(sp, c.Queue)
	if !ok {
		return Result{Code: CodeQueueNotFound}
	}
	nextMicros, waitMicros := q.allowance(m.nowMs)
	if waitMicros > 0 {
		return Result{Code: CodeRateLimited, RetryAfterMs: max(1, (waitMicros+999)/1000)}
	}
	number, x, ok := q.nextVisible(m.nowMs)
	if !ok {
		m.done(sp, q)
		return Result{Code: CodeEmpty}
	}
	after := x.delivered(&q.settings, m.nowMs)
	q.replace(number, x, after)
	q.rateMicros = nextMicros
	m.done(sp, q)
	return Result{
		ID: MessageID{q.number, number}, Moves: after.moves, Retries: uint32(after.retries),
		LeaseExpiresAtMs: after.dueMs, Payload: after.payload,
	}
}

// nextVisible returns the message that has been visible longest. What is
// overdue on the way takes place, in the order of its time.
func (q *queue) nextVisible(nowMs int64) (uint64, message, bool) {
	for range receiveWork {
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
