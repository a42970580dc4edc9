package model

import (
	"slices"

	"github.com/spoolraft/spoolraft/fsm"
)

// Model is a spool named "default" with its queues, the documents with their
// claims, and log time.
type Model struct {
	nowMs       int64
	initialised bool
	caps        fsm.Caps
	suspended   bool
	queues      []*queue // those that exist, in the order of their creation
	queuesMade  uint64
	documents   []*document // channels and connectors
	revision    uint64
}

type queue struct {
	number       uint64
	name         string
	uid          string
	createdAtMs  int64
	draining     bool
	settings     fsm.Settings
	fullAtMicros int64 // when the rate limit's bucket is full again
	totals       fsm.Totals
	messages     []*message // those that exist, in the order of their creation
	messagesMade uint64
	claims       []claim
}

type message struct {
	number      uint64
	createdAtMs int64
	state       fsm.MessageState // StateVisible also while delayed
	visibleAtMs int64            // StateVisible
	leaseEndMs  int64            // StatePending; 0: never
	leaseBound  uint32           // StatePending: the retries at which an expiry fails it
	moves       uint32
	retries     uint32
	payload     string
}

type claim struct {
	key     fsm.Fingerprint
	message uint64
	atMs    int64
}

// New returns a model that has applied nothing.
func New() *Model { return &Model{} }

// NowMs is log time.
func (m *Model) NowMs() int64 { return m.nowMs }

// LearnUID tells the model the uid that the machine has given to a queue.
func (m *Model) LearnUID(queueName, uid string) {
	if q := m.queueNamed(queueName); q != nil {
		q.uid = uid
	}
}

// At returns a copy of the model as it would be after an empty batch at nowMs.
func (m *Model) At(nowMs int64) *Model {
	c := *m
	c.queues = nil
	for _, q := range m.queues {
		qc := *q
		qc.claims = slices.Clone(q.claims)
		qc.messages = nil
		for _, msg := range q.messages {
			mc := *msg
			qc.messages = append(qc.messages, &mc)
		}
		c.queues = append(c.queues, &qc)
	}
	c.documents = nil
	for _, d := range m.documents {
		dc := *d
		dc.claims = slices.Clone(d.claims)
		c.documents = append(c.documents, &dc)
	}
	c.Apply(fsm.Batch{NowMs: nowMs})
	return &c
}

// catchUp does everything that is due by log time.
func (m *Model) catchUp() {
	for _, q := range m.queues {
		stay := make([]*message, 0, len(q.messages))
		for _, msg := range q.messages {
			expiresAtMs := msg.createdAtMs + m.retentionMs(q)
			leaseOver := msg.state == fsm.StatePending && msg.leaseEndMs != 0 && msg.leaseEndMs <= m.nowMs
			if leaseOver && msg.leaseEndMs < expiresAtMs {
				q.retry(msg, msg.leaseBound, msg.leaseEndMs)
			}
			if expiresAtMs <= m.nowMs {
				q.totals.Expired++
			} else {
				stay = append(stay, msg)
			}
		}
		q.messages = stay

		windowMs := int64(q.settings.DedupWindowSeconds) * 1000
		q.claims = slices.DeleteFunc(q.claims, func(c claim) bool { return c.atMs+windowMs <= m.nowMs })
	}
	m.queues = slices.DeleteFunc(m.queues, func(q *queue) bool { return q.draining && len(q.messages) == 0 })
	m.catchUpClaims()
}

func (m *Model) effectiveRetentionSeconds(q *queue) uint32 {
	if limit := m.caps.MaxRetentionSeconds; limit > 0 && limit < q.settings.RetentionSeconds {
		return limit
	}
	return q.settings.RetentionSeconds
}

func (m *Model) retentionMs(q *queue) int64 { return int64(m.effectiveRetentionSeconds(q)) * 1000 }

func (m *Model) queueNamed(name string) *queue {
	for _, q := range m.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

// named finds the message that a token names. Its code is CodeOK only where
// the token names the message as it is.
func (m *Model) named(t fsm.Token) (*queue, *message, fsm.Code) {
	for _, q := range m.queues {
		for _, msg := range q.messages {
			if q.number != t.Queue || msg.number != t.Message || msg.moves != t.Moves {
				continue
			}
			if t.Sort == fsm.Lease && msg.state != fsm.StatePending {
				continue
			}
			return q, msg, fsm.CodeOK
		}
	}
	return nil, nil, fsm.CodeStaleToken
}

// retry counts a delivery that came to nothing at atMs.
func (q *queue) retry(msg *message, bound uint32, atMs int64) {
	if msg.retries >= bound {
		q.fail(msg)
		return
	}
	msg.retries++
	msg.comeBack(atMs)
}

func (q *queue) fail(msg *message) {
	msg.state = fsm.StateFailed
	msg.moves++
	q.totals.Failed++
}

func (msg *message) comeBack(visibleAtMs int64) {
	msg.state = fsm.StateVisible
	msg.visibleAtMs = visibleAtMs
	msg.moves++
}

func (q *queue) remove(msg *message) {
	q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == msg })
}

func (q *queue) holderOf(key fsm.Fingerprint) (uint64, bool) {
	for _, c := range q.claims {
		if c.key == key {
			return c.message, true
		}
	}
	return 0, false
}
