package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// canned answers requests with the texts, in turn, over as many connections as
// it takes. An empty text, and the end of them, closes a connection.
func canned(texts ...string) dialFunc {
	left := make(chan string, len(texts))
	for _, text := range texts {
		left <- text
	}
	close(left)
	return func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			buf := make([]byte, 1<<16)
			for {
				if _, err := theirs.Read(buf); err != nil {
					return
				}
				text := <-left
				if text == "" {
					return
				}
				if _, err := io.WriteString(theirs, text); err != nil || len(left) == 0 {
					return
				}
			}
		}()
		return ours, nil
	}
}

func newConn(t *testing.T, dial dialFunc) *conn {
	c := &conn{ctx: t.Context(), node: node{host: "node"}, dial: dial, timeout: time.Minute}
	t.Cleanup(c.close)
	return c
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string]response{
		"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n":                                              {status: 201},
		"HTTP/1.1 204 No Content\r\n\r\n":                                                                {status: 204},
		"HTTP/1.1 200 OK\r\ncontent-length:5\r\nspooler-lease:  L1 \r\n\r\nhello":                        {status: 200, lease: "L1", body: []byte("hello")},
		"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello":                                                    {status: 200, body: []byte("hello")},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n":          {status: 200, body: []byte("hello")},
		"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":           {status: 503, body: []byte("{}")},
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Long: " + strings.Repeat("x", 3000) + "\r\n\r\nhello": {status: 200, body: []byte("hello")},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(t, canned(text, text))
			for range 2 { // the second shows that the first was read to its end
				got, err := c.call([]byte("POST / HTTP/1.1\r\n\r\n"), 0)
				if err != nil || got.status != want.status || got.lease != want.lease || string(got.body) != string(want.body) {
					t.Errorf("%q: %d %q %q, %v", text, got.status, got.lease, got.body, err)
				}
			}
			c.close()
		})
	}
}

func TestNoAnswers(t *testing.T) {
	for _, text := range []string{
		"", "HTTP/1.1", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(t, canned(text))
			if got, err := c.call([]byte("POST / HTTP/1.1\r\n\r\n"), 0); !errors.Is(err, callError{lost}) || c.nc != nil {
				t.Errorf("%q: %+v, %v", text, got, err)
			}
		})
	}
}

func TestSilenceAndEnd(t *testing.T) {
	silent := func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs)
		return ours, nil
	}
	synctest.Test(t, func(t *testing.T) {
		c := newConn(t, silent)
		start := time.Now()
		_, err := c.call([]byte("x"), time.Minute)
		if took := time.Since(start); !errors.Is(err, callError{timedOut}) || took != 2*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c.ctx = ctx
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		if _, err := c.call([]byte("x"), time.Minute); err == nil || time.Since(start) != time.Second {
			t.Errorf("the end of the run: %v after %v", err, time.Since(start))
		}
	})
}

func TestNodes(t *testing.T) {
	for text, want := range map[string]node{
		"http://127.0.0.1:8080":      {address: "127.0.0.1:8080", host: "127.0.0.1:8080", name: "127.0.0.1", path: "/v1/spools/a"},
		"http://127.0.0.1:8080/v1/":  {address: "127.0.0.1:8080", host: "127.0.0.1:8080", name: "127.0.0.1", path: "/v1/spools/a"},
		"https://queue.example/x/v1": {address: "queue.example:443", host: "queue.example", name: "queue.example", path: "/x/v1/spools/a", secure: true},
		"http://[::1]":               {address: "[::1]:80", host: "[::1]", name: "::1", path: "/v1/spools/a"},
	} {
		if got, err := parseNode(text, "a"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "127.0.0.1:8080", "ftp://x", "http://x?y", "http://x#y", "http:///v1"} {
		if got, err := parseNode(text, "a"); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
