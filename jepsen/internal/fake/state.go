package fake

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// message is one message of a queue. Times are milliseconds.
type message struct {
	number, moves        int
	payload, key         string
	state                string // visible, pending, failed; a delay is a visible message's time to come
	retries              int
	createdMs, visibleMs int64
	expiresMs            int64 // of the lease
}

// claim is a remembered key.
type claim struct {
	number int
	atMs   int64
}

// queue is one queue.
type queue struct {
	name                              string
	number                            int
	leaseSeconds, maxRetries, windowS int
	messages                          []*message
	next                              int
	keys                              map[string]claim
	inFlight                          map[string]bool
	stats                             history.Stats
	fresh                             []*message // not yet flushed, for EarlyAnswer
	acked                             []*message // newest acked, for AckedReturns
}

// state is the whole cluster's.
type state struct {
	bug       Bug
	dice      *rand.Rand
	queues    map[string]*queue
	lastQueue int
	index     uint64
	ghosts    map[string][]*message // of removed queues, for GhostOfOldQueue
}

func (s *state) has(b Bug) bool { return s.bug == b }

// luck makes a planted bug strike one time in n.
func (s *state) luck(b Bug, n int) bool { return s.bug == b && s.dice.IntN(n) == 0 }

func (s *state) createQueue(name string, st history.Settings) *queue {
	s.lastQueue++
	q := &queue{
		name: name, number: s.lastQueue, leaseSeconds: 30, maxRetries: 5,
		keys: map[string]claim{}, inFlight: map[string]bool{},
	}
	set(&q.leaseSeconds, st.LeaseTimeoutSeconds)
	set(&q.maxRetries, st.MaxRetries)
	set(&q.windowS, st.DedupWindowSeconds)
	for _, m := range s.ghosts[name] {
		q.next++
		m.number = q.next
		q.messages = append(q.messages, m)
	}
	delete(s.ghosts, name)
	s.queues[name] = q
	return q
}

func set(to *int, from *int) {
	if from != nil {
		*to = *from
	}
}

func (s *state) updateQueue(q *queue, st history.Settings) {
	set(&q.leaseSeconds, st.LeaseTimeoutSeconds)
	set(&q.maxRetries, st.MaxRetries)
	if st.DedupWindowSeconds == nil || *st.DedupWindowSeconds == q.windowS {
		return
	}
	q.windowS = *st.DedupWindowSeconds
	for key := range q.keys {
		if s.has(HalfWindow) && s.dice.IntN(2) == 0 {
			continue
		}
		delete(q.keys, key)
	}
}

func (s *state) removeQueue(q *queue) {
	if s.has(GhostOfOldQueue) {
		s.ghosts[q.name] = q.messages
	}
	delete(s.queues, q.name)
}

// duplicate returns the message number that holds the key.
func (s *state) duplicate(q *queue, key string, nowMs int64) (int, bool) {
	c, ok := q.keys[key]
	windowMs := int64(q.windowS) * 1000
	if s.has(EarlyWindow) {
		windowMs /= 2
	}
	if !ok || nowMs >= c.atMs+windowMs {
		return 0, false
	}
	if s.luck(WrongOriginal, 3) {
		return c.number + 1, true
	}
	return c.number, true
}

func (s *state) append(q *queue, key, payload string, delaySeconds int, nowMs int64) *message {
	q.next++
	m := &message{
		number: q.next, payload: payload, key: key, state: "visible",
		createdMs: nowMs, visibleMs: nowMs + int64(delaySeconds)*1000,
	}
	if s.has(DelayLost) {
		m.visibleMs = nowMs
	}
	q.messages = append(q.messages, m)
	q.fresh = append(q.fresh, m)
	if key != "" {
		q.keys[key] = claim{m.number, nowMs}
	}
	q.stats.AddedTotal++
	return m
}

// sweep ends the leases that are over.
func (s *state) sweep(q *queue, nowMs int64) {
	for _, m := range q.messages {
		early := int64(0)
		if s.has(EarlyExpiry) {
			early = int64(q.leaseSeconds) * 500
		}
		if s.has(ExpiredAck) {
			early = -500 // the sweep alone ends leases, and it is late
		}
		if m.state == "pending" && m.expiresMs-early <= nowMs {
			s.giveBack(q, m, nowMs)
			if s.has(CountedTwice) {
				m.retries++
			}
		}
	}
}

// giveBack counts a retry and returns the message, or fails it.
func (s *state) giveBack(q *queue, m *message, nowMs int64) {
	m.moves++
	m.visibleMs = nowMs
	if m.retries >= q.maxRetries {
		m.state = "failed"
		q.stats.FailedTotal++
		return
	}
	m.retries++
	m.state = "visible"
}

func (s *state) receive(q *queue, nowMs int64) *message {
	s.sweep(q, nowMs)
	for _, m := range q.messages {
		free := m.state == "visible" && m.visibleMs <= nowMs
		free = free || m.state == "pending" && s.luck(DoubleLease, 20)
		free = free || m.state == "failed" && s.has(FailedDelivered)
		if free {
			m.state = "pending"
			m.moves++
			m.expiresMs = nowMs + int64(q.leaseSeconds)*1000
			return m
		}
	}
	return nil
}

// remove takes the message out of its queue.
func (s *state) remove(q *queue, m *message) {
	q.messages = slices.DeleteFunc(q.messages, func(x *message) bool { return x == m })
	q.fresh = slices.DeleteFunc(q.fresh, func(x *message) bool { return x == m })
	if s.has(KeyDiesWithAck) {
		delete(q.keys, m.key)
	}
}

func (s *state) ack(q *queue, m *message) {
	s.remove(q, m)
	q.stats.AckedTotal++
	q.acked = append(q.acked, m)
	if len(q.acked) > 20 {
		q.acked = q.acked[1:]
	}
}

// failover is what a new leader does to the state where a bug is planted.
func (s *state) failover() {
	for _, q := range s.queues {
		if s.has(ForgetKeys) {
			q.keys = map[string]claim{}
		}
		if s.has(EarlyAnswer) && len(q.fresh) > 0 {
			lost := q.fresh[len(q.fresh)*2/3:]
			q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return slices.Contains(lost, m) })
			for _, m := range lost {
				delete(q.keys, m.key)
			}
			q.stats.AddedTotal -= int64(len(lost))
		}
		if s.has(AckedReturns) && len(q.acked) > 0 {
			for _, m := range q.acked {
				m.state, m.visibleMs = "visible", 0
			}
			q.messages = append(q.messages, q.acked...)
			q.stats.AckedTotal -= int64(len(q.acked))
			q.acked = nil
		}
		q.fresh = nil
	}
}

// counts fills in what a listing would show at the moment.
func (s *state) counts(q *queue, nowMs int64) history.Stats {
	st := q.stats
	for _, m := range q.messages {
		st.Total++
		st.DataBytes += int64(len(m.payload))
		switch m.shown(nowMs) {
		case "delayed":
			st.Delayed++
		case "visible":
			st.Visible++
		case "pending":
			st.Pending++
		case "failed":
			st.Failed++
		}
	}
	return st
}

// shown is the state that a reader sees.
func (m *message) shown(nowMs int64) string {
	if m.state == "visible" && m.visibleMs > nowMs {
		return "delayed"
	}
	return m.state
}

func (q *queue) id(number int) string { return fmt.Sprintf("%d-%d", q.number, number) }

func (q *queue) find(number int) *message {
	for _, m := range q.messages {
		if m.number == number {
			return m
		}
	}
	return nil
}
