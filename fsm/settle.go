package fsm

// settle carries out the commands that name one message by a token.
func (m *Machine) settle(sp *spool, c *Command) Result {
	if c.Token.Sort == Handle && c.Op.takes(Handle) {
		return m.settleHandle(sp, c)
	}
	q, x, code := m.leased(sp, c)
	if code != CodeOK {
		return Result{Code: code}
	}
	number, result := c.Token.Message, Result{}
	switch c.Op {
	case OpAck:
		q.remove(number, x)
		q.totals.Acked++
	case OpNack:
		after := x.retried(m.nowMs, uint16(q.settings.MaxRetries))
		if after.state == StateFailed {
			q.totals.Failed++
		}
		q.replace(number, x, after)
		q.totals.Nacked++
	case OpRelease:
		q.replace(number, x, x.returned(m.nowMs+int64(c.DelaySeconds)*1000))
		q.totals.Released++
	case OpFail:
		q.replace(number, x, x.failed())
		q.totals.Failed++
	case OpDiscard:
		q.remove(number, x)
		q.totals.Discarded++
	case OpRenew:
		after := x.renewed(&q.settings, m.nowMs)
		q.replace(number, x, after)
		result.LeaseExpiresAtMs = after.dueMs
	}
	m.done(sp, q)
	return result
}

func (m *Machine) settleHandle(sp *spool, c *Command) Result {
	q, x, code := m.named(sp, c)
	if code != CodeOK {
		return Result{Code: code}
	}
	number := c.Token.Message
	switch {
	case c.Op == OpDiscard:
		q.remove(number, x)
		q.totals.Discarded++
	case x.state != StateFailed:
		return Result{Code: CodeNotFailed}
	default:
		after := x.returned(m.nowMs + int64(c.DelaySeconds)*1000)
		after.retries = 0
		q.replace(number, x, after)
	}
	m.done(sp, q)
	return Result{}
}

// leased returns the message that the command's lease is for.
func (m *Machine) leased(sp *spool, c *Command) (*queue, message, Code) {
	q, x, code := m.named(sp, c)
	if code == CodeOK && x.state != StatePending {
		code = CodeStaleToken
	}
	return q, x, code
}

// named returns the message that the command's token names, as long as it has
// not moved.
func (m *Machine) named(sp *spool, c *Command) (*queue, message, Code) {
	if !c.Op.takes(c.Token.Sort) {
		return nil, message{}, CodeInvalidToken
	}
	if q, ok := m.queues.Get(c.Token.Queue); ok && q.spool != sp.name {
		return nil, message{}, CodeInvalidToken
	}
	q, ok := m.findNumber(sp, c.Token.Queue)
	if !ok {
		return nil, message{}, CodeStaleToken
	}
	x, ok, noticed := q.live(c.Token.Message, m.nowMs)
	if noticed {
		m.done(sp, q)
	}
	if !ok || x.moves != c.Token.Moves {
		return nil, message{}, CodeStaleToken
	}
	return q, x, CodeOK
}
