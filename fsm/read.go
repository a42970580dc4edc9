package fsm

import "regexp"

// Read answers a query. A light one (see [Query.Light]) is answered as of
// nowMs, on the live machine and beside other readers, since it changes
// nothing. The others are for an [Image], in which nothing is overdue.
func (m *Machine) Read(nowMs int64, q Query) Answer {
	nowMs = max(nowMs, m.nowMs)
	a := Answer{AppliedIndex: m.index}
	if q.Kind == QueryDocument || q.Kind == QueryDocuments {
		m.readDocuments(&q, &a)
		return a
	}
	a.Code = m.SpoolState(q.Spool)
	if a.Code == CodeOK {
		switch q.Kind {
		case QueryQueue:
			m.readQueue(nowMs, &q, &a)
		case QueryQueues, QueryStats:
			m.readQueues(nowMs, &q, &a)
		case QueryMessages:
			m.readMessages(nowMs, &q, &a)
		case QueryInspect:
			m.inspect(nowMs, &q, &a)
		default:
			a.Code = CodeInvalidCommand
		}
	}
	return a
}

func (m *Machine) readQueue(nowMs int64, q *Query, a *Answer) {
	found, ok := m.peek(q.Spool, q.Queue, nowMs)
	if !ok {
		a.Code = CodeQueueNotFound
		return
	}
	a.Queues = []QueueStats{{QueueInfo: *found.info()}}
}

// readQueues serves the listing of queues and the one with stats, which also
// counts and sums over the whole spool.
func (m *Machine) readQueues(nowMs int64, q *Query, a *Answer) {
	match, err := regexp.Compile(q.Match)
	if err != nil || q.Limit < 1 {
		a.Code = CodeInvalidCommand
		return
	}
	names := make(map[string]bool, len(q.Names))
	for _, name := range q.Names {
		names[name] = true
	}
	sp, _ := m.spools.Get(q.Spool)
	sp.queues.Scan(func(name string, number uint64) bool {
		found, _ := m.queues.Get(number)
		var stats Stats
		if q.Kind == QueryStats {
			stats = found.stats(nowMs)
			a.QueueCount++
			a.Sum.add(&stats)
		}
		if name <= q.After || a.More || (len(names) > 0 && !names[name]) || !match.MatchString(name) {
			return true
		}
		if len(a.Queues) == q.Limit {
			a.More = true
			return q.Kind == QueryStats
		}
		a.Queues = append(a.Queues, QueueStats{QueueInfo: *found.info(), Stats: stats})
		return true
	})
}

func (q *queue) stats(nowMs int64) Stats {
	s := Stats{
		Total: uint64(q.messages.Len()), DataBytes: q.dataBytes, Pending: q.pending, Failed: q.failed,
		Visible: uint64(dueBy(q.ready, nowMs)), Totals: q.totals, DedupKeys: uint64(q.claims.len()),
	}
	s.Delayed = uint64(q.ready.Len()) - s.Visible
	if _, oldest, ok := q.messages.Min(); ok {
		s.OldestMs = oldest.createdAtMs
	}
	return s
}

func (s *Stats) add(o *Stats) {
	s.Total += o.Total
	s.DataBytes += o.DataBytes
	s.Delayed += o.Delayed
	s.Visible += o.Visible
	s.Pending += o.Pending
	s.Failed += o.Failed
	s.Unavailable += o.Unavailable
	s.DedupKeys += o.DedupKeys
	if o.OldestMs != 0 && (s.OldestMs == 0 || o.OldestMs < s.OldestMs) {
		s.OldestMs = o.OldestMs
	}
	t, u := &s.Totals, &o.Totals
	t.Added += u.Added
	t.Acked += u.Acked
	t.Nacked += u.Nacked
	t.Released += u.Released
	t.Failed += u.Failed
	t.Discarded += u.Discarded
	t.Expired += u.Expired
}

func (m *Machine) readMessages(nowMs int64, q *Query, a *Answer) {
	found, ok := m.peek(q.Spool, q.Queue, nowMs)
	switch {
	case !ok:
		a.Code = CodeQueueNotFound
		return
	case q.Limit < 1:
		a.Code = CodeInvalidCommand
		return
	}
	a.QueueNumber = found.number
	found.messages.Ascend(q.AfterMessage+1, func(number uint64, x message) bool {
		info := found.describe(number, x, nowMs)
		if q.State != AnyState && info.State != q.State {
			return true
		}
		if a.More = len(a.Messages) == q.Limit; a.More {
			return false
		}
		a.Messages = append(a.Messages, info)
		return true
	})
}

func (m *Machine) inspect(nowMs int64, q *Query, a *Answer) {
	found, ok := m.queues.Get(q.Token.Queue)
	switch {
	case q.Token.Sort != Handle, ok && found.spool != q.Spool:
		a.Code = CodeInvalidToken
		return
	case !ok || found.drained(nowMs):
		a.Code = CodeStaleToken
		return
	}
	x, ok := found.messages.Get(q.Token.Message)
	if x.leaseOver(nowMs) {
		x = x.afterLease()
	}
	if !ok || found.gone(x, nowMs) || x.moves != q.Token.Moves {
		a.Code = CodeStaleToken
		return
	}
	a.Messages = []MessageInfo{found.describe(q.Token.Message, x, nowMs)}
	a.Payload = x.payload
}

func (q *queue) describe(number uint64, x message, nowMs int64) MessageInfo {
	info := MessageInfo{
		ID: MessageID{q.number, number}, State: x.state, Retries: uint32(x.retries), Moves: x.moves,
		CreatedAtMs: x.createdAtMs, ExpiresAtMs: x.createdAtMs + q.retentionMs,
	}
	switch {
	case x.state == StatePending:
		info.LeaseExpiresAtMs = x.dueMs
	case x.state == StateVisible:
		info.VisibleAtMs = x.dueMs
		if x.dueMs > nowMs {
			info.State = StateDelayed
		}
	}
	return info
}
