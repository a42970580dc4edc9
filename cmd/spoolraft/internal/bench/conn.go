package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// node is where the API of one node is.
type node struct {
	address string // host and port
	host    string // as the Host header has it
	name    string // as a certificate has it
	path    string // of the spool, with /v1
	secure  bool
}

// parseNode reads the address of an API, with or without /v1.
func parseNode(text, spool string) (node, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
		return node{}, fmt.Errorf("the address of a node is %q, but it must look like http://127.0.0.1:8080", text)
	}
	n := node{address: u.Host, host: u.Host, name: u.Hostname(), secure: u.Scheme == "https"}
	if u.Port() == "" {
		port := "80"
		if n.secure {
			port = "443"
		}
		n.address = net.JoinHostPort(u.Hostname(), port)
	}
	n.path = strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), "/v1") + "/v1/spools/" + url.PathEscape(spool)
	return n, nil
}

// dialFunc opens a connection to a host and port.
type dialFunc func(ctx context.Context, address string) (net.Conn, error)

// conn is a client's connection, which makes one call at a time. It is HTTP/1.1
// as far as a server of the contract speaks it: an answer has a length, is
// chunked, or has no body.
type conn struct {
	ctx     context.Context // its end ends a call
	node    node
	dial    dialFunc
	timeout time.Duration

	nc     net.Conn // nil: to be opened
	forget func() bool
	r      *bufio.Reader
	body   []byte
}

// response is an answer. Its bytes are good until the next call.
type response struct {
	status int
	lease  string
	body   []byte
}

// callError is a call without an answer.
type callError struct{ kind string }

func (e callError) Error() string { return e.kind }

// The kinds of calls without an answer.
const (
	notConnected = "not connected"
	lost         = "connection lost"
	timedOut     = "timeout"
)

const dialTimeout = 5 * time.Second

func (c *conn) open() error {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	nc, err := c.dial(ctx, c.node.address)
	if err != nil {
		return err
	}
	if c.node.secure {
		nc = tls.Client(nc, &tls.Config{ServerName: c.node.name, NextProtos: []string{"http/1.1"}})
	}
	c.nc = nc
	c.forget = context.AfterFunc(c.ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	if c.r == nil {
		c.r = bufio.NewReader(nc)
	} else {
		c.r.Reset(nc)
	}
	return nil
}

func (c *conn) close() {
	if c.nc != nil {
		c.forget()
		c.nc.Close()
		c.nc = nil
	}
}

// call sends a whole request and reads its answer, which the server may keep
// waiting on purpose.
func (c *conn) call(request []byte, wait time.Duration) (response, error) {
	if c.nc == nil {
		if c.open() != nil {
			return response{}, callError{notConnected}
		}
	}
	// The context is looked at after the deadline was set, since its end sets another.
	if err := c.nc.SetDeadline(time.Now().Add(c.timeout + wait)); err != nil || c.ctx.Err() != nil {
		c.close()
		return response{}, callError{lost}
	}
	_, err := c.nc.Write(request)
	var res response
	if err == nil {
		res, err = c.read()
	}
	if err != nil {
		c.close()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return response{}, callError{timedOut}
		}
		return response{}, callError{lost}
	}
	return res, nil
}

var errNotHTTP = errors.New("this is no HTTP/1.1")

func (c *conn) read() (res response, err error) {
	line, err := c.line()
	if err != nil {
		return res, err
	}
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 || string(line[:len(version)]) != version {
		return res, errNotHTTP
	}
	if res.status, err = strconv.Atoi(string(line[len(version) : len(version)+3])); err != nil || res.status < 200 {
		return res, errNotHTTP // the requests ask for no interim answer
	}
	length, chunked, closing := int64(-1), false, false
	for {
		if line, err = c.line(); err != nil {
			return res, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
				return res, errNotHTTP
			}
		case is(name, "Spooler-Lease"):
			res.lease = string(value)
		case is(name, "Transfer-Encoding"):
			chunked = is(value, "chunked")
		case is(name, "Connection"):
			closing = is(value, "close")
		}
	}
	if err = c.readBody(res.status, length, chunked); err != nil {
		return res, err
	}
	res.body = c.body
	if closing {
		c.close()
	}
	return res, nil
}

func (c *conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

func is(got []byte, want string) bool {
	return len(got) == len(want) && strings.EqualFold(string(got), want)
}

// maxAnswerBytes is more than any answer of the contract has.
const maxAnswerBytes = 64 << 20

func (c *conn) readBody(status int, length int64, chunked bool) (err error) {
	switch {
	case status == 204 || status == 304:
		c.body = c.body[:0]
		return nil
	case chunked:
		c.body, err = io.ReadAll(io.LimitReader(httputil.NewChunkedReader(c.r), maxAnswerBytes))
		if err == nil {
			_, err = c.line() // after the last chunk
		}
		return err
	case length < 0 || length > maxAnswerBytes:
		return errNotHTTP
	}
	if int64(cap(c.body)) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.r, c.body)
	return err
}
