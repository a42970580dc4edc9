package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// newTestClient returns a client over a history that nobody reads.
func newTestClient(t *testing.T) *Client {
	t.Helper()
	rec, err := history.Create(filepath.Join(t.TempDir(), "h"), history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(rec, "test", 5*time.Second)
	t.Cleanup(func() { c.Close(); rec.Close() })
	return c
}

func TestClassify(t *testing.T) {
	for status, want := range map[int]history.Outcome{
		200: history.OK, 201: history.OK, 202: history.OK, 204: history.OK,
		302: history.Unknown,
		400: history.Refused, 401: history.Refused, 404: history.Refused, 409: history.Refused,
		410: history.Refused, 411: history.Refused, 413: history.Refused, 429: history.Refused,
		500: history.Unknown, 502: history.Unknown, 503: history.Refused, 504: history.Unknown, 507: history.Refused,
	} {
		if got := Classify(status); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

func TestOutcomeOfBrokenAnswers(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	hijack := func(write string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, write)
			conn.Close()
		}))
	}
	for name, c := range map[string]struct {
		url  string
		want history.Outcome
	}{
		"no listener":      {"http://" + closed.Addr().String(), history.Refused},
		"no answer":        {hijack("").URL, history.Unknown},
		"half a head":      {hijack("HTTP/1.1 201 Crea").URL, history.Unknown},
		"half a body":      {hijack("HTTP/1.1 201 Created\r\nSpooler-Message-Id: 1-1\r\nContent-Length: 9\r\n\r\nab").URL, history.Unknown},
		"no id":            {hijack("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").URL, history.Unknown},
		"whole":            {hijack("HTTP/1.1 201 Created\r\nSpooler-Message-Id: 1-1\r\nContent-Length: 0\r\n\r\n").URL, history.OK},
		"refused":          {hijack("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").URL, history.Refused},
		"refused, cut off": {hijack("HTTP/1.1 503 x\r\nContent-Length: 9\r\n\r\n").URL, history.Unknown},
	} {
		o := newTestClient(t).Send(context.Background(), Target{"n1", c.url}, 0, SendRequest{Queue: "q", Payload: "p"})
		if o.Outcome != c.want {
			t.Errorf("%s: outcome is %s (%s), want %s", name, o.Outcome, o.Error, c.want)
		}
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	c := newTestClient(t)
	c.Timeout = 10 * time.Millisecond
	if o := c.Send(context.Background(), Target{"n1", srv.URL}, 0, SendRequest{Queue: "q"}); o.Outcome != history.Unknown {
		t.Errorf("outcome is %s", o.Outcome)
	}
}

func TestErrorsAreRead(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"dedup_claimed","message":"Taken.","details":{"id":"1-7"}}`)
	}))
	defer srv.Close()
	o := newTestClient(t).AckAndSend(context.Background(), Target{"n1", srv.URL}, 0,
		Token{Secret: "s", IssuedBy: 4, MessageID: "1-1", Queue: "a"}, SendRequest{Queue: "b", Payload: "p", Key: "k"})
	if o.Outcome != history.Refused || o.ErrorKind != "dedup_claimed" || o.MessageID != "1-7" || o.TokenOp != 4 || o.Queue != "b" {
		t.Errorf("read %+v", o)
	}
}
