package fsm

func (m *Machine) setCaps(sp *spool, c *Command) Result {
	limited := sp.caps.MaxRetentionSeconds != c.Caps.MaxRetentionSeconds
	if limited {
		m.sweepSpool(sp) // what was due by the old limit stays due
	}
	sp.caps, sp.suspended = c.Caps, c.Suspended
	if limited {
		for _, number := range sp.queues.Values() {
			q, _ := m.queues.Get(number)
			q = m.own(q)
			q.retentionMs = retentionMs(sp, &q.settings)
			m.done(sp, q)
		}
	}
	return Result{}
}

// retentionMs is the smaller of a queue's setting and its spool's limit.
func retentionMs(sp *spool, s *Settings) int64 {
	seconds := s.RetentionSeconds
	if limit := sp.caps.MaxRetentionSeconds; limit > 0 {
		seconds = min(seconds, limit)
	}
	return int64(seconds) * 1000
}

func (m *Machine) createQueue(sp *spool, c *Command) Result {
	if q, ok := m.find(sp, c.Queue); ok {
		if q.state == QueueDraining {
			return Result{Code: CodeQueueDeleting}
		}
		return Result{Code: CodeQueueExists}
	}
	if r := retentionAllowed(sp, c.Patch); r.Code != CodeOK {
		return r
	}
	if limit := sp.caps.MaxQueues; limit > 0 && uint64(sp.queues.Len()) >= limit {
		m.sweepSpool(sp) // a queue that has drained still counts until somebody looks
		if uint64(sp.queues.Len()) >= limit {
			return Result{Code: CodeQueueLimit, Max: limit}
		}
	}
	q := m.newQueue(m.nextQueue, sp.name, c.Queue, m.nowMs)
	q.settings = c.Patch.apply(DefaultSettings())
	q.retentionMs = retentionMs(sp, &q.settings)
	m.nextQueue++
	m.queues.Set(q.number, q)
	sp.queues.Set(q.name, q.number)
	m.done(sp, q)
	return Result{Queue: q.info()}
}

func (m *Machine) updateQueue(sp *spool, c *Command) Result {
	q, ok := m.find(sp, c.Queue)
	if !ok {
		return Result{Code: CodeQueueNotFound}
	}
	if r := retentionAllowed(sp, c.Patch); r.Code != CodeOK {
		return r
	}
	next := c.Patch.apply(q.settings)
	if next.RetentionSeconds != q.settings.RetentionSeconds {
		q.sweep(m.nowMs, never) // what was due by the old setting stays due
	}
	if next.DedupWindowSeconds != q.settings.DedupWindowSeconds {
		q.claims = newClaims()
	}
	if next.RecvRateLimit != q.settings.RecvRateLimit {
		q.rateMicros = 0
	}
	q.settings = next
	q.retentionMs = retentionMs(sp, &next)
	m.done(sp, q)
	return Result{Queue: q.info()}
}

func retentionAllowed(sp *spool, p Patch) Result {
	if limit := sp.caps.MaxRetentionSeconds; limit > 0 && p.Set&FieldRetention != 0 && p.To.RetentionSeconds > limit {
		return Result{Code: CodeRetentionLimit, Max: uint64(limit)}
	}
	return Result{}
}

func (m *Machine) deleteQueue(sp *spool, c *Command) Result {
	q, ok := m.find(sp, c.Queue)
	switch {
	case !ok:
		return Result{Code: CodeQueueNotFound}
	case c.UID != "" && c.UID != q.uid:
		return Result{Code: CodeQueueReplaced}
	case c.Drain:
		q.state = QueueDraining
		m.done(sp, q)
	default:
		m.dropQueue(sp, q)
	}
	return Result{}
}

func (q *queue) info() *QueueInfo {
	return &QueueInfo{
		Name: q.name, UID: q.uid, CreatedAtMs: q.createdAtMs, State: q.state, Settings: q.settings,
		EffectiveRetentionSeconds: uint32(q.retentionMs / 1000),
	}
}
