package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RateLimit is a token bucket for deliveries.
type RateLimit struct {
	IntervalMicros uint64 `json:"intervalMicros"`
	Burst          uint64 `json:"burst"`
}

// Patch is the settings that a create or an update names. A nil field is left
// out.
type Patch struct {
	LeaseTimeoutSeconds *uint64    `json:"leaseTimeoutSeconds,omitempty"`
	MaxRetries          *uint64    `json:"maxRetries,omitempty"`
	DedupWindowSeconds  *uint64    `json:"dedupWindowSeconds,omitempty"`
	RetentionSeconds    *uint64    `json:"retentionSeconds,omitempty"`
	RecvRateLimit       *RateLimit `json:"recvRateLimit,omitempty"`
}

// Settings of a queue, as the server tells them.
type Settings struct {
	LeaseTimeoutSeconds       uint64     `json:"leaseTimeoutSeconds"`
	MaxRetries                uint64     `json:"maxRetries"`
	DedupWindowSeconds        uint64     `json:"dedupWindowSeconds"`
	RetentionSeconds          uint64     `json:"retentionSeconds"`
	EffectiveRetentionSeconds uint64     `json:"effectiveRetentionSeconds"`
	RecvRateLimit             *RateLimit `json:"recvRateLimit"`
}

// Queue as the server tells it. Stats are there in a listing of stats only.
type Queue struct {
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	CreatedAt time.Time `json:"createdAt"`
	State     string    `json:"state"`
	Settings  Settings  `json:"settings"`
	Stats     Stats     `json:"stats"`
}

// Stats of a queue, or of a spool.
type Stats struct {
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

// Page is the envelope of every listing.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// SpoolStats is the answer of [Client.Stats].
type SpoolStats struct {
	QueueCount uint64      `json:"queueCount"`
	Stats      Stats       `json:"stats"`
	Queues     Page[Queue] `json:"queues"`
}

// List narrows a listing. Zero values are left to the server.
type List struct {
	Match string // a regular expression
	Limit int
	After string
}

func (l List) query() url.Values {
	q := url.Values{}
	set(q, "match", l.Match)
	set(q, "after", l.After)
	if l.Limit != 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func queuePath(queue string) string { return "/queues/" + url.PathEscape(queue) }

// CreateQueue answers the new [Queue].
func (c *Client) CreateQueue(ctx context.Context, queue string, p Patch) (json.RawMessage, error) {
	return c.putSettings(ctx, http.MethodPut, queue, p)
}

// UpdateQueue answers the [Queue] as it is now.
func (c *Client) UpdateQueue(ctx context.Context, queue string, p Patch) (json.RawMessage, error) {
	return c.putSettings(ctx, http.MethodPatch, queue, p)
}

func (c *Client) putSettings(ctx context.Context, method, queue string, p Patch) (json.RawMessage, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return c.raw(ctx, call{method: method, path: queuePath(queue), header: header, body: body, change: true})
}

// Queue answers the [Queue].
func (c *Client) Queue(ctx context.Context, queue string) (json.RawMessage, error) {
	return c.raw(ctx, call{method: http.MethodGet, path: queuePath(queue)})
}

// DeleteQueue removes the queue. A uid that is not "" must be its own.
func (c *Client) DeleteQueue(ctx context.Context, queue, mode, uid string) error {
	q := url.Values{"mode": {mode}}
	set(q, "uid", uid)
	_, err := c.do(ctx, call{method: http.MethodDelete, path: queuePath(queue), query: q, change: true})
	return err
}

// Queues answers a [Page] of [Queue].
func (c *Client) Queues(ctx context.Context, l List) (json.RawMessage, error) {
	return c.raw(ctx, call{method: http.MethodGet, path: "/queues", query: l.query()})
}

// Stats answers [SpoolStats], with an item for each of the queues named, or for
// every queue.
func (c *Client) Stats(ctx context.Context, queues []string, l List) (json.RawMessage, error) {
	q := l.query()
	if len(queues) > 0 {
		q["queue"] = queues
	}
	return c.raw(ctx, call{method: http.MethodGet, path: "/stats", query: q})
}
