package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// Spool is the spool that the harness works in.
const Spool = "default"

// maxAnswerBytes bounds what is read of an answer.
const maxAnswerBytes = 8 << 20

// Target is one node's API.
type Target struct {
	Node string
	URL  string // without /v1
}

// Client calls nodes and records the calls. It is safe for concurrent use.
type Client struct {
	HTTP    *http.Client
	Key     string
	Rec     *history.Recorder
	Timeout time.Duration // of one call, beyond what the call itself waits for
}

// New returns a client whose connections are its own.
func New(rec *history.Recorder, key string, timeout time.Duration) *Client {
	dialer := &net.Dialer{Timeout: timeout}
	return &Client{
		HTTP: &http.Client{
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				MaxIdleConnsPerHost: 256,
				IdleConnTimeout:     10 * time.Second,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Key: key, Rec: rec, Timeout: timeout,
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Classify says what a status promises about the change.
func Classify(status int) history.Outcome {
	switch {
	case status >= 200 && status <= 299:
		return history.OK
	case status >= 400 && status <= 499, status == http.StatusServiceUnavailable, status == http.StatusInsufficientStorage:
		return history.Refused
	default:
		return history.Unknown
	}
}

// ClassifyError says what is known when no whole answer came. Only a
// connection that was never made proves that nothing was sent.
func ClassifyError(err error) history.Outcome {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return history.Refused
	}
	return history.Unknown
}

// request is what one call puts on the wire.
type request struct {
	method string
	path   string // below /v1/spools/SPOOL
	query  url.Values
	header map[string]string
	body   []byte
}

// answer is what came back.
type answer struct {
	header http.Header
	body   []byte
}

// call makes one request and fills in the operation's outcome. Reading the
// fields of a good answer is the caller's part, in parse; an answer that
// cannot be read counts as unknown.
func (c *Client) call(ctx context.Context, at Target, o *history.Op, r request, parse func(answer) error) {
	o.Node = at.Node
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+time.Duration(o.WaitSeconds)*time.Second)
	defer cancel()
	u := at.URL + "/v1/spools/" + Spool + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, bytes.NewReader(r.body))
	if err != nil {
		panic(fmt.Sprintf("the harness built a bad request: %v", err))
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	c.Rec.Begin(o)
	defer c.Rec.End(o)

	resp, err := c.HTTP.Do(req)
	if err != nil {
		o.Outcome, o.Error = ClassifyError(err), errorText(err)
		return
	}
	defer resp.Body.Close()
	o.Status = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		o.Outcome, o.Error = history.Unknown, "the answer broke off: "+errorText(err)
		return
	}
	o.Outcome = Classify(resp.StatusCode)
	if o.Outcome != history.OK {
		readError(o, body, resp.Header)
		return
	}
	if parse == nil {
		return
	}
	if err := parse(answer{header: resp.Header, body: body}); err != nil {
		o.Outcome, o.Error = history.Unknown, "the answer could not be read: "+err.Error()
	}
}

// errorText leaves out the method and address that url.Error puts in front.
func errorText(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// readError takes kind, message and the id of a claimed key from an error.
func readError(o *history.Op, body []byte, h http.Header) {
	var e struct {
		Kind    string         `json:"kind"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	}
	if json.Unmarshal(body, &e) == nil {
		o.ErrorKind, o.Error = e.Kind, e.Message
		if id, ok := e.Details["id"].(string); ok {
			o.MessageID = id
		}
	}
	if o.Error == "" {
		o.Error = http.StatusText(o.Status)
	}
	if s := h.Get("Retry-After"); s != "" {
		o.Error += " (Retry-After: " + s + ")"
	}
}

// integer reads a whole number of a header, 0 where it is absent.
func integer(h http.Header, name string) (int, error) {
	s := h.Get(name)
	if s == "" {
		return 0, nil
	}
	return strconv.Atoi(s)
}

// instant reads a time of a header, the zero time where it is absent.
func instant(h http.Header, name string) (time.Time, error) {
	s := h.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}

// required reads a header that must be there.
func required(h http.Header, name string) (string, error) {
	s := h.Get(name)
	if s == "" {
		return "", fmt.Errorf("the header %s is missing", name)
	}
	return s, nil
}
