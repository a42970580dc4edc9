package model

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/spoolraft/spoolraft/fsm"
)

// Read answers a query as of log time. AppliedIndex is not set.
func (m *Model) Read(q fsm.Query) fsm.Answer {
	switch {
	case q.Kind == fsm.QueryDocument:
		return m.Document(q)
	case q.Kind == fsm.QueryDocuments:
		return m.Documents(q)
	case q.Spool != "default":
		return fsm.Answer{Code: fsm.CodeSpoolNotFound}
	case m.suspended:
		return fsm.Answer{Code: fsm.CodeSpoolSuspended}
	}
	switch q.Kind {
	case fsm.QueryQueue:
		return m.Queue(q)
	case fsm.QueryQueues:
		return m.Queues(q)
	case fsm.QueryStats:
		return m.Stats(q)
	case fsm.QueryMessages:
		return m.Messages(q)
	default:
		return m.Inspect(q)
	}
}

// Queue answers QueryQueue.
func (m *Model) Queue(query fsm.Query) fsm.Answer {
	q := m.queueNamed(query.Queue)
	if q == nil {
		return fsm.Answer{Code: fsm.CodeQueueNotFound}
	}
	return fsm.Answer{Queues: []fsm.QueueStats{{QueueInfo: m.info(q)}}}
}

// Queues answers QueryQueues.
func (m *Model) Queues(query fsm.Query) fsm.Answer {
	var a fsm.Answer
	for _, q := range m.queuesByName() {
		if listed(q, query) {
			a.Queues = append(a.Queues, fsm.QueueStats{QueueInfo: m.info(q)})
		}
	}
	a.Queues, a.More = page(a.Queues, query.Limit)
	return a
}

// Stats answers QueryStats.
func (m *Model) Stats(query fsm.Query) fsm.Answer {
	a := fsm.Answer{QueueCount: uint64(len(m.queues))}
	for _, q := range m.queuesByName() {
		s := m.stats(q)
		a.Sum = sum(a.Sum, s)
		if listed(q, query) {
			a.Queues = append(a.Queues, fsm.QueueStats{QueueInfo: m.info(q), Stats: s})
		}
	}
	a.Queues, a.More = page(a.Queues, query.Limit)
	return a
}

// Messages answers QueryMessages.
func (m *Model) Messages(query fsm.Query) fsm.Answer {
	q := m.queueNamed(query.Queue)
	if q == nil {
		return fsm.Answer{Code: fsm.CodeQueueNotFound}
	}
	a := fsm.Answer{QueueNumber: q.number}
	for _, msg := range q.messages {
		item := m.item(q, msg)
		if msg.number > query.AfterMessage && (query.State == fsm.AnyState || query.State == item.State) {
			a.Messages = append(a.Messages, item)
		}
	}
	a.Messages, a.More = page(a.Messages, query.Limit)
	return a
}

// Inspect answers QueryInspect.
func (m *Model) Inspect(query fsm.Query) fsm.Answer {
	if query.Token.Sort != fsm.Handle {
		return fsm.Answer{Code: fsm.CodeInvalidToken}
	}
	q, msg, code := m.named(query.Token)
	if code != fsm.CodeOK {
		return fsm.Answer{Code: code}
	}
	return fsm.Answer{Messages: []fsm.MessageInfo{m.item(q, msg)}, Payload: msg.payload}
}

func (m *Model) queuesByName() []*queue {
	sorted := slices.Clone(m.queues)
	slices.SortFunc(sorted, func(a, b *queue) int { return cmp.Compare(a.name, b.name) })
	return sorted
}

func listed(q *queue, query fsm.Query) bool {
	return q.name > query.After &&
		(query.Names == nil || slices.Contains(query.Names, q.name)) &&
		regexp.MustCompile(query.Match).MatchString(q.name)
}

func page[T any](items []T, limit int) (first []T, more bool) {
	if len(items) > limit {
		return items[:limit], true
	}
	return items, false
}

func (m *Model) info(q *queue) fsm.QueueInfo {
	state := fsm.QueueActive
	if q.draining {
		state = fsm.QueueDraining
	}
	return fsm.QueueInfo{
		Name:                      q.name,
		UID:                       q.uid,
		CreatedAtMs:               q.createdAtMs,
		State:                     state,
		Settings:                  q.settings,
		EffectiveRetentionSeconds: m.effectiveRetentionSeconds(q),
	}
}

func (m *Model) item(q *queue, msg *message) fsm.MessageInfo {
	item := fsm.MessageInfo{
		ID:          fsm.MessageID{Queue: q.number, Message: msg.number},
		State:       msg.state,
		Retries:     msg.retries,
		Moves:       msg.moves,
		CreatedAtMs: msg.createdAtMs,
		ExpiresAtMs: msg.createdAtMs + m.retentionMs(q),
	}
	switch msg.state {
	case fsm.StateVisible:
		item.VisibleAtMs = msg.visibleAtMs
		if msg.visibleAtMs > m.nowMs {
			item.State = fsm.StateDelayed
		}
	case fsm.StatePending:
		item.LeaseExpiresAtMs = msg.leaseEndMs
	}
	return item
}

func (m *Model) stats(q *queue) fsm.Stats {
	s := fsm.Stats{Totals: q.totals, DedupKeys: uint64(len(q.claims))}
	for _, msg := range q.messages {
		s.Total++
		s.DataBytes += uint64(len(msg.payload))
		switch m.item(q, msg).State {
		case fsm.StateDelayed:
			s.Delayed++
		case fsm.StateVisible:
			s.Visible++
		case fsm.StatePending:
			s.Pending++
		case fsm.StateFailed:
			s.Failed++
		}
	}
	if len(q.messages) > 0 {
		s.OldestMs = q.messages[0].createdAtMs
	}
	return s
}

func sum(a, b fsm.Stats) fsm.Stats {
	oldestMs := min(a.OldestMs, b.OldestMs)
	if a.OldestMs == 0 || b.OldestMs == 0 {
		oldestMs = max(a.OldestMs, b.OldestMs)
	}
	return fsm.Stats{
		Total:     a.Total + b.Total,
		DataBytes: a.DataBytes + b.DataBytes,
		Delayed:   a.Delayed + b.Delayed,
		Visible:   a.Visible + b.Visible,
		Pending:   a.Pending + b.Pending,
		Failed:    a.Failed + b.Failed,
		DedupKeys: a.DedupKeys + b.DedupKeys,
		OldestMs:  oldestMs,
		Totals: fsm.Totals{
			Added:     a.Totals.Added + b.Totals.Added,
			Acked:     a.Totals.Acked + b.Totals.Acked,
			Nacked:    a.Totals.Nacked + b.Totals.Nacked,
			Released:  a.Totals.Released + b.Totals.Released,
			Failed:    a.Totals.Failed + b.Totals.Failed,
			Discarded: a.Totals.Discarded + b.Totals.Discarded,
			Expired:   a.Totals.Expired + b.Totals.Expired,
		},
	}
}
