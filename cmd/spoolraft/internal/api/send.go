package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Send is one message to send.
type Send struct {
	Queue     string
	Payload   []byte
	Delay     time.Duration
	DedupKey  string // at most one of the two
	DedupHash string
	Handle    bool // ask for a handle
}

// Keyed reports whether the send can be repeated safely.
func (s Send) Keyed() bool { return s.DedupKey != "" || s.DedupHash != "" }

// Sent is where a message is.
type Sent struct {
	ID        string
	Duplicate bool   // it was there already
	Handle    string // where asked for, and not for a duplicate
	Attempts  int
}

// Send makes one attempt.
func (c *Client) Send(ctx context.Context, s Send) (Sent, error) {
	return c.sendOnce(ctx, s, 0)
}

func (c *Client) sendOnce(ctx context.Context, s Send, timeout time.Duration) (Sent, error) {
	h := http.Header{"Content-Type": {"application/octet-stream"}}
	setDelay(h, s.Delay)
	if s.DedupKey != "" {
		h.Set(headerDedupKey, s.DedupKey)
	}
	if s.DedupHash != "" {
		h.Set(headerDedupHash, s.DedupHash)
	}
	q := url.Values{}
	if s.Handle {
		q.Set("handle", "true")
	}
	payload := s.Payload
	if payload == nil {
		payload = []byte{}
	}
	a, err := c.do(ctx, call{
		method: http.MethodPost, path: queuePath(s.Queue) + "/send",
		query: q, header: h, body: payload, change: true, timeout: timeout,
	})
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{ID: a.header.Get(headerID), Duplicate: a.status == http.StatusOK, Handle: a.header.Get(headerHandle), Attempts: 1}
	if sent.ID == "" {
		return Sent{}, foreign(a, true)
	}
	return sent, nil
}

// attemptTimeout bounds one of several attempts, so that a server that hangs
// does not use up the time of all of them.
const attemptTimeout = 5 * time.Second

const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// SendRetrying repeats a keyed send with the same key, for as long as the
// outcome is unknown or the server cannot take it just now, until limit is
// over. It calls retrying before every pause. An error is Unknown as soon as
// one attempt's outcome was, since that attempt may have landed, or may yet.
func (c *Client) SendRetrying(ctx context.Context, s Send, limit time.Duration, retrying func(err *Error)) (Sent, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	unknown := false
	pause := firstPause
	for attempt := 1; ; attempt++ {
		sent, err := c.sendOnce(ctx, s, attemptTimeout)
		if err == nil {
			sent.Attempts = attempt
			return sent, nil
		}
		var e *Error
		if !errors.As(err, &e) {
			return Sent{}, err
		}
		unknown = unknown || e.Outcome == Unknown
		wait := max(pause, e.RetryAfter)
		deadline, _ := ctx.Deadline()
		if !passing(e) || time.Now().Add(wait).After(deadline) {
			return Sent{}, gaveUp(e, attempt, unknown)
		}
		retrying(e)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Sent{}, gaveUp(e, attempt, unknown)
		}
		pause = min(2*pause, maxPause)
	}
}

// passing reports whether another attempt may end better.
func passing(e *Error) bool {
	return e.Outcome == Failed || e.Outcome == Unknown ||
		e.Status == http.StatusServiceUnavailable || e.Kind == "dedup_in_flight"
}

func gaveUp(e *Error, attempts int, unknown bool) *Error {
	last := *e
	if attempts > 1 {
		last.Message = fmt.Sprintf("Gave up after %d attempts. The last one: %s", attempts, e.Message)
	}
	if unknown {
		last.Outcome = Unknown
	}
	return &last
}
