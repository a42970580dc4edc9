package fsm

// freed is what the same log entry takes out of the spool before a send.
type freed struct{ messages, dataBytes uint64 }

func (m *Machine) send(sp *spool, c *Command) Result {
	q, r := m.accept(sp, c, freed{})
	if r.Code != CodeOK {
		return r
	}
	r = m.enqueue(q, c)
	m.done(sp, q)
	return r
}

// accept checks everything that can refuse a send, in the order that callers
// may rely on: the queue and its state, the window, the key, the caps.
func (m *Machine) accept(sp *spool, c *Command, less freed) (*queue, Result) {
	q, ok := m.find(sp, c.Queue)
	switch {
	case !ok:
		return nil, Result{Code: CodeQueueNotFound}
	case q.state == QueueDraining:
		return nil, Result{Code: CodeQueueDeleting}
	}
	if c.Keyed {
		if q.settings.DedupWindowSeconds == 0 {
			return nil, Result{Code: CodeDedupDisabled}
		}
		if was, ok := q.remembered(c.Key, m.nowMs); ok {
			return nil, Result{Code: CodeDuplicate, ID: MessageID{q.number, was.message}}
		}
	}
	r := sp.room(c, less)
	if r.Code != CodeOK {
		m.sweepSpool(sp)
		r = sp.room(c, less)
	}
	return q, r
}

// room says whether the spool's sums leave room for a send.
func (sp *spool) room(c *Command, less freed) Result {
	full := func(kind CapKind, limit, with uint64) bool { return limit > 0 && with > limit }
	caps := &sp.caps
	switch {
	case full(CapMessages, caps.MaxMessages, sp.messages-less.messages+1):
		return Result{Code: CodeSpoolFull, Cap: CapMessages, Max: caps.MaxMessages}
	case full(CapDataBytes, caps.MaxDataBytes, sp.dataBytes-less.dataBytes+uint64(len(c.Payload))):
		return Result{Code: CodeSpoolFull, Cap: CapDataBytes, Max: caps.MaxDataBytes}
	case c.Keyed && full(CapDedupKeys, caps.MaxDedupKeys, sp.keys+1):
		return Result{Code: CodeSpoolFull, Cap: CapDedupKeys, Max: caps.MaxDedupKeys}
	}
	return Result{}
}

// enqueue appends the message of an accepted send and claims its key.
func (m *Machine) enqueue(q *queue, c *Command) Result {
	number := q.nextMessage
	q.nextMessage++
	q.insert(number, message{
		payload:     c.Payload,
		sum:         checksum(c.Payload),
		createdAtMs: m.nowMs,
		dueMs:       m.nowMs + int64(c.DelaySeconds)*1000,
		state:       StateVisible,
	})
	if c.Keyed {
		q.remember(c.Key, number, m.nowMs)
	}
	q.totals.Added++
	return Result{ID: MessageID{q.number, number}}
}

// ackAndSend acks a leased message and appends another, or does neither. The
// lease comes first, so that a retry after a commit is stale and appends
// nothing.
func (m *Machine) ackAndSend(sp *spool, c *Command) Result {
	from, x, code := m.leased(sp, c)
	if code != CodeOK {
		return Result{Code: code}
	}
	to, r := m.accept(sp, c, freed{messages: 1, dataBytes: uint64(len(x.payload))})
	switch r.Code {
	case CodeOK:
	case CodeDuplicate:
		r.Code = CodeDedupClaimed
		return r
	default:
		return r
	}
	from.remove(c.Token.Message, x)
	from.totals.Acked++
	r = m.enqueue(to, c)
	m.done(sp, from)
	m.done(sp, to)
	return r
}
