package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// rawConn is a connection that writes bytes as they are.
type rawConn struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawConn{t, c.(*net.TCPConn), bufio.NewReader(c)}
}

func (c *rawConn) write(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.TCPConn, s); err != nil {
		c.t.Fatal(err)
	}
}

// read reads one answer whole.
func (c *rawConn) read() (*http.Response, string) {
	c.t.Helper()
	w, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return w, string(body)
}

// wantClosed fails the test unless nothing more comes.
func (c *rawConn) wantClosed() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c.in); n != 0 {
		c.t.Fatalf("%d bytes more, then %v", n, err)
	}
}

// head is the start of a send, with more headers.
func head(more ...string) string {
	lines := append([]string{"POST " + testQueue + "/send HTTP/1.1", "Host: x", "Authorization: Bearer k"}, more...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func TestRawBodies(t *testing.T) {
	tests := []struct {
		name, text string
		halfClose  bool
		status     int
		proposed   bool
		closes     bool
	}{
		{name: "whole", text: head("Content-Length: 5") + "12345", status: 201, proposed: true},
		{name: "empty", text: head("Content-Length: 0"), status: 201, proposed: true},
		{name: "none", text: head(), status: 201, proposed: true},
		{name: "short", text: head("Content-Length: 5") + "123", halfClose: true, status: 400, closes: true},
		{name: "nothing of it", text: head("Content-Length: 5"), halfClose: true, status: 400, closes: true},
		{name: "slow", text: head("Content-Length: 5") + "123", status: 408, closes: true},
		{name: "slow and large", text: head("Content-Length: 1000000") + strings.Repeat("x", 100000), status: 408, closes: true},
		{name: "chunked", text: head("Transfer-Encoding: chunked") + "5\r\n12345\r\n0\r\n\r\n", status: 411, closes: true},
		{name: "chunked, and nothing comes", text: head("Transfer-Encoding: chunked"), status: 411, closes: true},
		{name: "chunked, broken", text: head("Transfer-Encoding: chunked") + "zz\r\n", status: 411, closes: true},
		{name: "too long, and nothing comes", text: head("Content-Length: 1048577"), status: 413, closes: true},
		{name: "refused, and nothing comes", text: head("Content-Length: 5", "Spooler-Foo: 1"), status: 400, closes: true},
		{name: "refused with its body", text: head("Content-Length: 5", "Spooler-Foo: 1") + "12345", status: 400},
		{name: "expecting and refused", text: head("Content-Length: 5", "Expect: 100-continue", "Spooler-Foo: 1"), status: 400, closes: true},
		{name: "two lengths", text: head("Content-Length: 5", "Content-Length: 6") + "12345", status: 400, closes: true},
		{name: "negative length", text: head("Content-Length: -5"), status: 400, closes: true},
		{name: "length beyond numbers", text: head("Content-Length: 99999999999999999999"), status: 400, closes: true},
		{name: "largest length", text: head("Content-Length: 9223372036854775807"), status: 413, closes: true},
		{name: "space in a name", text: head("Spooler Dedup-String: k"), status: 400, closes: true},
		{name: "space before the colon", text: head("Spooler-Dedup-String : k"), status: 400, closes: true},
		{name: "control character", text: head("Spooler-Dedup-String: a\x01b"), status: 400, closes: true},
		{name: "other letters", text: head("Spooler-Dedup-String: k\xc3\xa9"), status: 400},
		{name: "outer spaces", text: head("Spooler-Dedup-String:  \t k \t "), status: 201, proposed: true},
		{name: "only spaces", text: head("Spooler-Dedup-String:   "), status: 400},
		{name: "huge header", text: head("X-Filler: " + strings.Repeat("x", 80000)), status: 431, closes: true},
		{name: "many headers", text: head(strings.TrimSuffix(strings.Repeat("Spooler-Dedup-String: k\r\n", 1000), "\r\n")), status: 400},
		{name: "no HTTP", text: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", status: 400, closes: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &fakeBroker{}
			s := newTestServer(t, b)
			s.bodyTimeout = 50 * time.Millisecond
			addr, _ := listen(t, s)
			c := dial(t, addr)
			c.write(test.text)
			if test.halfClose {
				_ = c.CloseWrite()
			}
			w, body := c.read()
			if w.StatusCode != test.status {
				t.Fatalf("%d, want %d: %s", w.StatusCode, test.status, body)
			}
			if test.closes {
				c.wantClosed()
			} else {
				c.write(head())
				if w, body := c.read(); w.StatusCode != 201 {
					t.Fatalf("the connection is of no more use: %d %s", w.StatusCode, body)
				}
			}
			proposals := 0
			b.mu.Lock()
			for _, command := range b.commands {
				if test.closes || command.Payload == "12345" || command.Keyed || test.proposed {
					proposals++
				}
			}
			b.mu.Unlock()
			if (proposals > 0) != test.proposed {
				t.Fatalf("%d proposals", proposals)
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	addr, _ := listen(t, newTestServer(t, &fakeBroker{}))
	c := dial(t, addr)
	c.write(head("Content-Length: 5", "Expect: 100-continue"))
	if line, err := c.in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = c.in.ReadString('\n')
	c.write("12345")
	if w, body := c.read(); w.StatusCode != 201 {
		t.Fatalf("%d %s", w.StatusCode, body)
	}
}

// TestResets cuts the connection at every stage of a send. Only a body that
// came whole is proposed.
func TestResets(t *testing.T) {
	whole := head("Content-Length: 5") + "12345"
	for cut := 0; cut <= len(whole); cut += 7 {
		closed := make(chan struct{})
		proposed := make(chan struct{}, 1)
		b := &fakeBroker{onDo: func(fsm.Command) (fsm.Result, error) {
			proposed <- struct{}{}
			return fsm.Result{}, nil
		}}
		addr, _ := listen(t, newTestServer(t, b), func(h *http.Server) {
			h.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					close(closed)
				}
			}
		})
		c := dial(t, addr)
		c.write(whole[:cut])
		_ = c.SetLinger(0)
		_ = c.Close()
		<-closed
		if len(proposed) != 0 && cut < len(whole) {
			t.Fatalf("cut at %d: proposed", cut)
		}
	}
}

// TestResetWhileProposed: a client that goes after its body came does not
// hinder its command.
func TestResetWhileProposed(t *testing.T) {
	proposed, gone, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := &fakeBroker{onDo: func(fsm.Command) (fsm.Result, error) {
		close(proposed)
		<-gone
		close(done)
		return fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 1}}, nil
	}}
	addr, _ := listen(t, newTestServer(t, b))
	c := dial(t, addr)
	c.write(head("Content-Length: 5") + "12345")
	<-proposed
	_ = c.SetLinger(0)
	_ = c.Close()
	close(gone)
	<-done
}

// TestPipeline: answers come in order on one connection, with payloads of odd
// bytes between them.
func TestPipeline(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	addr, _ := listen(t, s)
	c := dial(t, addr)
	var text strings.Builder
	payload := "HTTP/1.1 200 OK\r\n\r\n\x00"
	for range 10 {
		fmt.Fprintf(&text, "%s%s", head(fmt.Sprintf("Content-Length: %d", len(payload))), payload)
		text.WriteString(strings.Replace(head(), "/send", "/recv?waitSeconds=0", 1))
	}
	c.write(text.String())
	for i := range 10 {
		id := fmt.Sprintf("1-%d", i+1)
		if w, _ := c.read(); w.StatusCode != 201 || w.Header.Get(headerMessageID) != id {
			t.Fatalf("%d %v", w.StatusCode, w.Header)
		}
		if w, body := c.read(); w.StatusCode != 200 || w.Header.Get(headerMessageID) != id || body != payload {
			t.Fatalf("%d %v %q", w.StatusCode, w.Header, body)
		}
	}
}

// TestHandlerPanicKeepsTheServer: the connection and the server go on.
func TestHandlerPanicKeepsTheServer(t *testing.T) {
	var log syncBuffer
	b := &fakeBroker{onDo: func(c fsm.Command) (fsm.Result, error) {
		if c.Payload != "" {
			panic(c.Payload)
		}
		return fsm.Result{}, nil
	}}
	addr, _ := listen(t, newTestServer(t, b, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) }))
	c := dial(t, addr)
	c.write(head("Content-Length: 6") + "secret")
	if w, body := c.read(); w.StatusCode != 500 || !strings.Contains(body, "operation_unconfirmed") {
		t.Fatalf("%d %s", w.StatusCode, body)
	}
	c.write(head())
	if w, body := c.read(); w.StatusCode != 201 {
		t.Fatalf("%d %s", w.StatusCode, body)
	}
	if text := log.String(); !strings.Contains(text, "a handler panicked") || strings.Contains(text, "secret") {
		t.Fatalf("%s", text)
	}
}

// deadlineConn remembers its read deadline.
type deadlineConn struct {
	net.Conn
	last *atomic.Pointer[time.Time]
}

func (c deadlineConn) SetReadDeadline(t time.Time) error {
	c.last.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

type deadlineListener struct {
	net.Listener
	last *atomic.Pointer[time.Time]
}

func (l deadlineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return deadlineConn{c, l.last}, err
}

// TestBodyDeadlineIsTakenAway: the limit on a body is none on its command.
func TestBodyDeadlineIsTakenAway(t *testing.T) {
	var last atomic.Pointer[time.Time]
	b := &fakeBroker{onDo: func(fsm.Command) (fsm.Result, error) {
		if d := last.Load(); d == nil || !d.IsZero() {
			t.Errorf("the read deadline is %v", d)
		}
		return fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 1}}, nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newTestServer(t, b).HTTPServer()
	done := make(chan struct{})
	go func() {
		_ = server.Serve(deadlineListener{l, &last})
		close(done)
	}()
	c := dial(t, l.Addr().String())
	c.write(head("Content-Length: 5") + "12345")
	if w, body := c.read(); w.StatusCode != 201 {
		t.Fatalf("%d %s", w.StatusCode, body)
	}
	_ = server.Close()
	<-done
}
