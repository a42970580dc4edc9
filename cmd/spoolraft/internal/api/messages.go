package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	headerID        = "Spooler-Message-Id"
	headerState     = "Spooler-Message-State"
	headerRetries   = "Spooler-Message-Retries"
	headerLease     = "Spooler-Lease"
	headerExpires   = "Spooler-Lease-Expires-At"
	headerHandle    = "Spooler-Handle"
	headerDelay     = "Spooler-Delay-Seconds"
	headerDedupKey  = "Spooler-Dedup-String"
	headerDedupHash = "Spooler-Dedup-Hash"
)

// Delivery is a message that was received, or looked at.
type Delivery struct {
	ID             string
	State          string // set by [Client.Inspect] only
	Retries        int
	Lease          string // set by [Client.Receive] only
	LeaseExpiresAt string // "": never
	Payload        []byte
}

// Receive leases the oldest visible message, waiting up to wait for one. It
// returns nil where none came.
func (c *Client) Receive(ctx context.Context, queue string, wait time.Duration) (*Delivery, error) {
	a, err := c.do(ctx, call{
		method: http.MethodPost,
		path:   queuePath(queue) + "/recv",
		query:  url.Values{"waitSeconds": {strconv.FormatInt(int64(wait/time.Second), 10)}},
		change: true,
		wait:   wait,
	})
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusNoContent {
		return nil, nil
	}
	d := delivery(a)
	if d.ID == "" || d.Lease == "" {
		return nil, foreign(a, true)
	}
	return d, nil
}

func delivery(a *answer) *Delivery {
	retries, _ := strconv.Atoi(a.header.Get(headerRetries))
	return &Delivery{
		ID:             a.header.Get(headerID),
		State:          a.header.Get(headerState),
		Retries:        retries,
		Lease:          a.header.Get(headerLease),
		LeaseExpiresAt: a.header.Get(headerExpires),
		Payload:        a.body,
	}
}

// Settle carries out one of ack, nack, release, fail and discard on a delivery.
// Only release takes a delay.
func (c *Client) Settle(ctx context.Context, verb, lease string, delay time.Duration) error {
	_, err := c.token(ctx, verb, headerLease, lease, delay)
	return err
}

// Renew extends the lease and returns when it now ends, "" for never.
func (c *Client) Renew(ctx context.Context, lease string) (expiresAt string, err error) {
	a, err := c.token(ctx, "renew", headerLease, lease, 0)
	if err != nil {
		return "", err
	}
	return a.header.Get(headerExpires), nil
}

// Discard removes the message of a handle, also one never delivered.
func (c *Client) Discard(ctx context.Context, handle string) error {
	_, err := c.token(ctx, "discard", headerHandle, handle, 0)
	return err
}

// Recover returns the failed message of a handle to its queue.
func (c *Client) Recover(ctx context.Context, handle string, delay time.Duration) error {
	_, err := c.token(ctx, "recover", headerHandle, handle, delay)
	return err
}

// Inspect reads the message of a handle and moves nothing.
func (c *Client) Inspect(ctx context.Context, handle string) (*Delivery, error) {
	a, err := c.do(ctx, call{
		method: http.MethodPost,
		path:   "/inspect",
		header: http.Header{headerHandle: {handle}},
		body:   []byte{},
	})
	if err != nil {
		return nil, err
	}
	d := delivery(a)
	if d.ID == "" {
		return nil, foreign(a, false)
	}
	return d, nil
}

func (c *Client) token(ctx context.Context, verb, header, token string, delay time.Duration) (*answer, error) {
	h := http.Header{header: {token}}
	setDelay(h, delay)
	return c.do(ctx, call{method: http.MethodPost, path: "/" + verb, header: h, body: []byte{}, change: true})
}

func setDelay(h http.Header, delay time.Duration) {
	if delay > 0 {
		h.Set(headerDelay, strconv.FormatInt(int64(delay/time.Second), 10))
	}
}

// Message is an item of a listing of messages. Times are "" where they do not
// apply.
type Message struct {
	ID             string `json:"id"`
	State          string `json:"state"`
	Retries        int    `json:"retries"`
	CreatedAt      string `json:"createdAt"`
	VisibleAt      string `json:"visibleAt"`
	LeaseExpiresAt string `json:"leaseExpiresAt"`
	ExpiresAt      string `json:"expiresAt"`
	Handle         string `json:"handle"`
}

// Messages answers a [Page] of [Message]. A state of "" is any.
func (c *Client) Messages(ctx context.Context, queue, state string, handles bool, l List) (json.RawMessage, error) {
	q := l.query()
	set(q, "state", state)
	if handles {
		q.Set("handle", "true")
	}
	return c.raw(ctx, call{method: http.MethodGet, path: queuePath(queue) + "/messages", query: q})
}
