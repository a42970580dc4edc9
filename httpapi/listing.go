package httpapi

import (
	"net/http"

	"github.com/spoolraft/spoolraft/fsm"
)

// page is the envelope of every listing.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // absent on the last page
}

type statsJSON struct {
	Total          uint64 `json:"total"`
	DataBytes      uint64 `json:"dataBytes"`
	Delayed        uint64 `json:"delayed"`
	Visible        uint64 `json:"visible"`
	Pending        uint64 `json:"pending"`
	Failed         uint64 `json:"failed"`
	Unavailable    uint64 `json:"unavailable"`
	AddedTotal     uint64 `json:"addedTotal"`
	AckedTotal     uint64 `json:"ackedTotal"`
	NackedTotal    uint64 `json:"nackedTotal"`
	ReleasedTotal  uint64 `json:"releasedTotal"`
	FailedTotal    uint64 `json:"failedTotal"`
	DiscardedTotal uint64 `json:"discardedTotal"`
	ExpiredTotal   uint64 `json:"expiredTotal"`
}

func statsOf(s *fsm.Stats) statsJSON {
	t := &s.Totals
	return statsJSON{
		Total: s.Total, DataBytes: s.DataBytes,
		Delayed: s.Delayed, Visible: s.Visible, Pending: s.Pending, Failed: s.Failed, Unavailable: s.Unavailable,
		AddedTotal: t.Added, AckedTotal: t.Acked, NackedTotal: t.Nacked, ReleasedTotal: t.Released,
		FailedTotal: t.Failed, DiscardedTotal: t.Discarded, ExpiredTotal: t.Expired,
	}
}

type queueStatsJSON struct {
	queueJSON
	Stats statsJSON `json:"stats"`
}

type spoolStatsJSON struct {
	QueueCount uint64               `json:"queueCount"`
	Stats      statsJSON            `json:"stats"`
	Queues     page[queueStatsJSON] `json:"queues"`
}

// messageJSON has its fields where they apply.
type messageJSON struct {
	ID             string `json:"id"`
	State          string `json:"state"`
	Retries        uint32 `json:"retries"`
	CreatedAt      string `json:"createdAt"`
	VisibleAt      string `json:"visibleAt,omitempty"`
	LeaseExpiresAt string `json:"leaseExpiresAt,omitempty"`
	ExpiresAt      string `json:"expiresAt"`
	Handle         string `json:"handle,omitempty"`
}

// pageOf makes a page of what a query found. last is the key of an item.
func pageOf[F, T any](found []F, more bool, item func(*F) T, last func(*F) string) page[T] {
	out := page[T]{Items: make([]T, len(found))}
	for i := range found {
		out.Items[i] = item(&found[i])
	}
	if more && len(found) > 0 {
		out.Next = last(&found[len(found)-1])
	}
	return out
}

func queueName(q *fsm.QueueStats) string { return q.Name }

func listQueues(c *call) *problem {
	answer, p := c.read(fsm.Query{Kind: fsm.QueryQueues, Match: c.query.match, Limit: c.query.limit, After: c.query.afterName})
	if p != nil {
		return p
	}
	item := func(q *fsm.QueueStats) queueJSON { return queueOf(&q.QueueInfo) }
	c.answerJSON(http.StatusOK, pageOf(answer.Queues, answer.More, item, queueName))
	return nil
}

func readStats(c *call) *problem {
	answer, p := c.read(fsm.Query{Kind: fsm.QueryStats, Names: c.query.queues, Match: c.query.match, Limit: c.query.limit, After: c.query.afterName})
	if p != nil {
		return p
	}
	item := func(q *fsm.QueueStats) queueStatsJSON {
		return queueStatsJSON{queueOf(&q.QueueInfo), statsOf(&q.Stats)}
	}
	c.answerJSON(http.StatusOK, spoolStatsJSON{
		QueueCount: uint64(answer.QueueCount),
		Stats:      statsOf(&answer.Sum),
		Queues:     pageOf(answer.Queues, answer.More, item, queueName),
	})
	return nil
}

func listMessages(c *call) *problem {
	after := c.query.afterID
	if c.query.handle && !c.needSealer() {
		return problemUnreadable
	}
	answer, p := c.read(fsm.Query{Kind: fsm.QueryMessages, Queue: c.queue, State: c.query.state, Limit: c.query.limit, AfterMessage: after.Message})
	if p != nil {
		return p
	}
	if after.Queue != 0 && after.Queue != answer.QueueNumber {
		return badRequest("The query parameter after is the id of a message of another queue")
	}
	last := func(m *fsm.MessageInfo) string { return formatID(m.ID) }
	c.answerJSON(http.StatusOK, pageOf(answer.Messages, answer.More, c.messageOf, last))
	return nil
}

func (c *call) messageOf(m *fsm.MessageInfo) messageJSON {
	out := messageJSON{
		ID:             formatID(m.ID),
		State:          stateNames[m.State],
		Retries:        m.Retries,
		CreatedAt:      formatTime(m.CreatedAtMs),
		VisibleAt:      formatOptionalTime(m.VisibleAtMs),
		LeaseExpiresAt: formatOptionalTime(m.LeaseExpiresAtMs),
		ExpiresAt:      formatTime(m.ExpiresAtMs),
	}
	if c.query.handle {
		out.Handle = c.sealer.Seal(fsm.Token{Sort: fsm.Handle, Queue: m.ID.Queue, Message: m.ID.Message, Moves: m.Moves})
	}
	return out
}

func formatOptionalTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return formatTime(ms)
}
