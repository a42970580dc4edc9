package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswerBytes bounds what an answer may hold: the largest payload that any
// server can be configured to take, and some more.
const maxAnswerBytes = 65 << 20

// Client makes calls to one server, for one spool.
type Client struct {
	base    string // ends in /v1
	key     string
	spool   string
	timeout time.Duration
	http    *http.Client
}

// New returns a client of the server at base, with or without /v1. A call ends
// after timeout; one that waits on the server has its wait on top.
func New(base, key, spool string, timeout time.Duration) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the address of the API is %q, but it must look like http://127.0.0.1:8080/v1", base)
	}
	path := strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	u.Path = path
	return &Client{
		base:    u.String(),
		key:     key,
		spool:   spool,
		timeout: timeout,
		http: &http.Client{
			// A redirected change could be made twice, or lose its key.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// call is one request to come.
type call struct {
	method  string
	path    string // below the spool, escaped
	beside  bool   // the path is not below the spool, but beside /v1
	query   url.Values
	header  http.Header
	body    []byte        // nil: none
	change  bool          // it may change something
	wait    time.Duration // the server may take this long on purpose
	timeout time.Duration // 0: the client's
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes the call once. A nil error means a 2xx answer, read to its end.
func (c *Client) do(ctx context.Context, k call) (*answer, error) {
	limit := k.timeout
	if limit == 0 {
		limit = c.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit+k.wait)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := c.request(ctx, k)
	if err != nil {
		return nil, &Error{Outcome: Failed, Message: fmt.Sprintf("The request could not be made, so nothing happened: %s.", cause(err))}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, lost(err, connected.Load(), k.change)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	a := &answer{status: res.StatusCode, header: res.Header, body: body}
	if a.status < 200 || a.status > 299 {
		return nil, answerError(a, k.change)
	}
	if err != nil {
		return nil, lost(err, true, k.change)
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	target := c.base + "/spools/" + url.PathEscape(c.spool) + k.path
	if k.beside {
		target = strings.TrimSuffix(c.base, "/v1") + k.path
	}
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	// A body of no bytes still declares its length.
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	return req, nil
}

// raw makes the call and returns the JSON of its answer.
func (c *Client) raw(ctx context.Context, k call) (json.RawMessage, error) {
	a, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	if !json.Valid(a.body) {
		return nil, foreign(a, k.change)
	}
	return a.body, nil
}

// foreign is a 2xx answer that no server of the contract gives.
func foreign(a *answer, change bool) *Error {
	e := &Error{Outcome: Failed, Status: a.status, Message: "The answer is none that spoolraft gives. Check the address of the API."}
	if change {
		e.Outcome = Unknown
	}
	return e
}

// cause is the innermost reason, without the method and address that net/http
// puts in front.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed it"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "the time for it ran out"
	default:
		return err.Error()
	}
}
