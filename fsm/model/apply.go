package model

import "github.com/spoolraft/spoolraft/fsm"

// Apply applies a batch and returns a result for each command.
func (m *Model) Apply(b fsm.Batch) []fsm.Result {
	m.nowMs = max(m.nowMs, b.NowMs)
	m.catchUp()
	results := make([]fsm.Result, 0, len(b.Commands))
	for i := range b.Commands {
		results = append(results, m.command(&b.Commands[i]))
		m.catchUp()
	}
	return results
}

func refuse(code fsm.Code) fsm.Result { return fsm.Result{Code: code} }

func (m *Model) command(c *fsm.Command) fsm.Result {
	switch {
	case c.Op == fsm.OpInit:
		m.initialised = m.initialised || c.ClusterID != ""
		return fsm.Result{}
	case !m.initialised:
		return refuse(fsm.CodeNotInitialised)
	case c.Op >= fsm.OpPutDocument && c.Op <= fsm.OpReleaseClaim:
		return m.unspooled(c)
	case c.Spool != "default":
		return refuse(fsm.CodeSpoolNotFound)
	case c.Op == fsm.OpSetCaps:
		m.caps, m.suspended = c.Caps, c.Suspended
		return fsm.Result{}
	case m.suspended:
		return refuse(fsm.CodeSpoolSuspended)
	case !wellFormed(c):
		return refuse(fsm.CodeInvalidCommand)
	}
	switch c.Op {
	case fsm.OpCreateQueue:
		return m.create(c)
	case fsm.OpUpdateQueue:
		return m.update(c)
	case fsm.OpDeleteQueue:
		return m.delete(c)
	case fsm.OpSend:
		return m.send(c)
	case fsm.OpReceive:
		return m.receive(c)
	case fsm.OpReceiveMany:
		return m.receiveMany(c)
	case fsm.OpAckAndSend:
		return m.ackAndSend(c)
	case fsm.OpClaimAndSend:
		return m.claimAndSend(c)
	case fsm.OpRecover:
		return m.recover(c)
	default:
		return m.settle(c)
	}
}

func (m *Model) create(c *fsm.Command) fsm.Result {
	if q := m.queueNamed(c.Queue); q != nil {
		if q.draining {
			return refuse(fsm.CodeQueueDeleting)
		}
		return refuse(fsm.CodeQueueExists)
	}
	if m.retentionAboveLimit(c.Patch) {
		return fsm.Result{Code: fsm.CodeRetentionLimit, Max: uint64(m.caps.MaxRetentionSeconds)}
	}
	if limit := m.caps.MaxQueues; limit > 0 && uint64(len(m.queues)) >= limit {
		return fsm.Result{Code: fsm.CodeQueueLimit, Max: limit}
	}
	m.queuesMade++
	q := &queue{
		number:      m.queuesMade,
		name:        c.Queue,
		createdAtMs: m.nowMs,
		settings:    fsm.Settings{LeaseTimeoutSeconds: 30, MaxRetries: 5, RetentionSeconds: 345_600},
	}
	q.change(c.Patch)
	m.queues = append(m.queues, q)
	info := m.info(q)
	return fsm.Result{Queue: &info}
}

func (m *Model) update(c *fsm.Command) fsm.Result {
	q := m.queueNamed(c.Queue)
	if q == nil {
		return refuse(fsm.CodeQueueNotFound)
	}
	if m.retentionAboveLimit(c.Patch) {
		return fsm.Result{Code: fsm.CodeRetentionLimit, Max: uint64(m.caps.MaxRetentionSeconds)}
	}
	before := q.settings
	q.change(c.Patch)
	if q.settings.DedupWindowSeconds != before.DedupWindowSeconds {
		q.claims = nil
	}
	if q.settings.RecvRateLimit != before.RecvRateLimit {
		q.fullAtMicros = 0
	}
	info := m.info(q)
	return fsm.Result{Queue: &info}
}

func (m *Model) retentionAboveLimit(p fsm.Patch) bool {
	limit := m.caps.MaxRetentionSeconds
	return limit > 0 && p.Set&fsm.FieldRetention != 0 && p.To.RetentionSeconds > limit
}

func (q *queue) change(p fsm.Patch) {
	if p.Set&fsm.FieldLeaseTimeout != 0 {
		q.settings.LeaseTimeoutSeconds = p.To.LeaseTimeoutSeconds
	}
	if p.Set&fsm.FieldMaxRetries != 0 {
		q.settings.MaxRetries = p.To.MaxRetries
	}
	if p.Set&fsm.FieldDedupWindow != 0 {
		q.settings.DedupWindowSeconds = p.To.DedupWindowSeconds
	}
	if p.Set&fsm.FieldRetention != 0 {
		q.settings.RetentionSeconds = p.To.RetentionSeconds
	}
	if p.Set&fsm.FieldRecvRateLimit != 0 {
		q.settings.RecvRateLimit = p.To.RecvRateLimit
	}
}

func (m *Model) delete(c *fsm.Command) fsm.Result {
	q := m.queueNamed(c.Queue)
	if q == nil {
		return refuse(fsm.CodeQueueNotFound)
	}
	if c.UID != "" && c.UID != q.uid {
		return refuse(fsm.CodeQueueReplaced)
	}
	q.draining = true // catchUp removes it with its last message
	if !c.Drain {
		q.messages = nil
	}
	return fsm.Result{}
}

func (m *Model) send(c *fsm.Command) fsm.Result {
	q, refusal := m.target(c)
	if q == nil {
		return refusal
	}
	if holder, ok := q.holderOf(c.Key); c.Keyed && ok {
		return fsm.Result{Code: fsm.CodeDuplicate, ID: fsm.MessageID{Queue: q.number, Message: holder}}
	}
	if full := m.full(c, nil); full.Code != fsm.CodeOK {
		return full
	}
	return m.add(q, c)
}

// target finds the queue of a send and checks that it takes it.
func (m *Model) target(c *fsm.Command) (*queue, fsm.Result) {
	q := m.queueNamed(c.Queue)
	switch {
	case q == nil:
		return nil, refuse(fsm.CodeQueueNotFound)
	case q.draining:
		return nil, refuse(fsm.CodeQueueDeleting)
	case c.Keyed && q.settings.DedupWindowSeconds == 0:
		return nil, refuse(fsm.CodeDedupDisabled)
	}
	return q, fsm.Result{}
}

// full checks the caps as they would stand after the send, without the message
// that goes in the same command.
func (m *Model) full(c *fsm.Command, without *message) fsm.Result {
	messages, dataBytes, keys := uint64(1), uint64(len(c.Payload)), uint64(1)
	for _, q := range m.queues {
		keys += uint64(len(q.claims))
		for _, msg := range q.messages {
			if msg != without {
				messages++
				dataBytes += uint64(len(msg.payload))
			}
		}
	}
	refuse := func(kind fsm.CapKind, limit uint64) fsm.Result {
		return fsm.Result{Code: fsm.CodeSpoolFull, Cap: kind, Max: limit}
	}
	switch {
	case m.caps.MaxMessages > 0 && messages > m.caps.MaxMessages:
		return refuse(fsm.CapMessages, m.caps.MaxMessages)
	case m.caps.MaxDataBytes > 0 && dataBytes > m.caps.MaxDataBytes:
		return refuse(fsm.CapDataBytes, m.caps.MaxDataBytes)
	case c.Keyed && m.caps.MaxDedupKeys > 0 && keys > m.caps.MaxDedupKeys:
		return refuse(fsm.CapDedupKeys, m.caps.MaxDedupKeys)
	}
	return fsm.Result{}
}

func (m *Model) add(q *queue, c *fsm.Command) fsm.Result {
	q.messagesMade++
	q.totals.Added++
	q.messages = append(q.messages, &message{
		number:      q.messagesMade,
		createdAtMs: m.nowMs,
		state:       fsm.StateVisible,
		visibleAtMs: m.nowMs + int64(c.DelaySeconds)*1000,
		payload:     c.Payload,
	})
	if c.Keyed {
		q.claims = append(q.claims, claim{key: c.Key, message: q.messagesMade, atMs: m.nowMs})
	}
	return fsm.Result{ID: fsm.MessageID{Queue: q.number, Message: q.messagesMade}}
}

func (m *Model) receive(c *fsm.Command) fsm.Result {
	q := m.queueNamed(c.Queue)
	if q == nil {
		return refuse(fsm.CodeQueueNotFound)
	}
	if waitMs := m.rateWaitMs(q); waitMs > 0 {
		return fsm.Result{Code: fsm.CodeRateLimited, RetryAfterMs: waitMs}
	}
	oldest := m.oldestVisible(q)
	if oldest == nil {
		return refuse(fsm.CodeEmpty)
	}
	if limit := q.settings.RecvRateLimit; limit.Burst > 0 {
		q.fullAtMicros = max(q.fullAtMicros, m.nowMs*1000) + int64(limit.IntervalMicros)
	}
	oldest.state = fsm.StatePending
	oldest.moves++
	m.lease(q, oldest)
	return fsm.Result{
		ID:               fsm.MessageID{Queue: q.number, Message: oldest.number},
		Moves:            oldest.moves,
		Retries:          oldest.retries,
		LeaseExpiresAtMs: oldest.leaseEndMs,
		Payload:          oldest.payload,
	}
}

// receiveMany is as many receives as asked for, until one finds nothing or finds
// what has too many bytes.
func (m *Model) receiveMany(c *fsm.Command) fsm.Result {
	var all []fsm.Delivery
	bytes := 0
	for len(all) < int(c.Count) {
		if q := m.queueNamed(c.Queue); q != nil && len(all) > 0 {
			if next := m.oldestVisible(q); next != nil && bytes+len(next.payload) > int(c.MaxBytes) {
				break
			}
		}
		r := m.receive(c)
		if r.Code != fsm.CodeOK && len(all) == 0 {
			return r
		}
		if r.Code != fsm.CodeOK {
			break
		}
		bytes += len(r.Payload)
		all = append(all, fsm.Delivery{ID: r.ID, Moves: r.Moves, Retries: r.Retries, LeaseExpiresAtMs: r.LeaseExpiresAtMs, Payload: r.Payload})
	}
	return fsm.Result{Deliveries: all}
}

// rateWaitMs is how long until the queue's rate limit has a token, in whole
// milliseconds rounded up, 0 where it has one.
func (m *Model) rateWaitMs(q *queue) int64 {
	limit := q.settings.RecvRateLimit
	if limit.Burst == 0 {
		return 0
	}
	interval, nowMicros := int64(limit.IntervalMicros), m.nowMs*1000
	// The bucket lacks a token for every interval until it is full; it has one
	// to give where it lacks no more than all but one.
	lackMicros := max(q.fullAtMicros, nowMicros) - nowMicros
	waitMicros := lackMicros - interval*(int64(limit.Burst)-1)
	if waitMicros <= 0 {
		return 0
	}
	return (waitMicros + 999) / 1000
}

// oldestVisible is the message that has been visible for longest, among equals
// the one sent first.
func (m *Model) oldestVisible(q *queue) *message {
	var oldest *message
	for _, msg := range q.messages {
		if msg.state != fsm.StateVisible || msg.visibleAtMs > m.nowMs {
			continue
		}
		if oldest == nil || msg.visibleAtMs < oldest.visibleAtMs {
			oldest = msg
		}
	}
	return oldest
}

// lease gives a pending message a lease of the current settings, from now on.
func (m *Model) lease(q *queue, msg *message) {
	msg.leaseBound = q.settings.MaxRetries
	msg.leaseEndMs = 0
	if seconds := q.settings.LeaseTimeoutSeconds; seconds > 0 {
		msg.leaseEndMs = m.nowMs + int64(seconds)*1000
	}
}

// settle is every command that takes a token and ends or prolongs what it
// names.
func (m *Model) settle(c *fsm.Command) fsm.Result {
	if c.Token.Sort != fsm.Lease && !(c.Op == fsm.OpDiscard && c.Token.Sort == fsm.Handle) {
		return refuse(fsm.CodeInvalidToken)
	}
	q, msg, code := m.named(c.Token)
	if code != fsm.CodeOK {
		return refuse(code)
	}
	switch c.Op {
	case fsm.OpAck:
		q.totals.Acked++
		q.remove(msg)
	case fsm.OpNack:
		q.totals.Nacked++
		q.retry(msg, q.settings.MaxRetries, m.nowMs)
	case fsm.OpRelease:
		q.totals.Released++
		msg.comeBack(m.nowMs + int64(c.DelaySeconds)*1000)
	case fsm.OpFail:
		q.fail(msg)
	case fsm.OpDiscard:
		q.totals.Discarded++
		q.remove(msg)
	case fsm.OpRenew:
		m.lease(q, msg)
		return fsm.Result{LeaseExpiresAtMs: msg.leaseEndMs}
	}
	return fsm.Result{}
}

func (m *Model) recover(c *fsm.Command) fsm.Result {
	if c.Token.Sort != fsm.Handle {
		return refuse(fsm.CodeInvalidToken)
	}
	_, msg, code := m.named(c.Token)
	if code != fsm.CodeOK {
		return refuse(code)
	}
	if msg.state != fsm.StateFailed {
		return refuse(fsm.CodeNotFailed)
	}
	msg.retries = 0
	msg.comeBack(m.nowMs + int64(c.DelaySeconds)*1000)
	return fsm.Result{}
}

func (m *Model) ackAndSend(c *fsm.Command) fsm.Result {
	if c.Token.Sort != fsm.Lease {
		return refuse(fsm.CodeInvalidToken)
	}
	from, msg, code := m.named(c.Token)
	if code != fsm.CodeOK {
		return refuse(code)
	}
	to, refusal := m.target(c)
	if to == nil {
		return refusal
	}
	if holder, ok := to.holderOf(c.Key); c.Keyed && ok {
		return fsm.Result{Code: fsm.CodeDedupClaimed, ID: fsm.MessageID{Queue: to.number, Message: holder}}
	}
	if full := m.full(c, msg); full.Code != fsm.CodeOK {
		return full
	}
	from.totals.Acked++
	from.remove(msg)
	return m.add(to, c)
}
