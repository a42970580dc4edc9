package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// nullWriter is a connection that costs nothing.
type nullWriter struct{ h http.Header }

func (w *nullWriter) Header() http.Header               { return w.h }
func (w *nullWriter) WriteHeader(int)                   {}
func (w *nullWriter) Write(p []byte) (int, error)       { return len(p), nil }
func (w *nullWriter) WriteString(s string) (int, error) { return len(s), nil }
func (w *nullWriter) FlushError() error                 { return nil }
func (w *nullWriter) SetReadDeadline(time.Time) error   { return nil }

// quickBroker answers at once.
type quickBroker struct {
	fakeBroker
	message fsm.Result
}

func (b *quickBroker) Do(context.Context, *fsm.Command) (fsm.Result, error) { return b.message, nil }
func (b *quickBroker) Receive(context.Context, string, string, time.Duration) (fsm.Result, error) {
	return b.message, nil
}

type body struct {
	strings.Reader
}

func (*body) Close() error { return nil }

func benchmarkCall(b *testing.B, target, payload string, accessLog bool, h header) {
	broker := &quickBroker{message: fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 123456}, Moves: 1, LeaseExpiresAtMs: 1_767_323_045_678, Payload: strings.Repeat("x", 256)}}
	s := newTestServer(b, broker, func(c *Config) {
		c.AnyKey, c.Keys = false, parseTestKeys(b)
		c.Logger, c.AccessLog = slog.New(slog.NewJSONHandler(io.Discard, nil)), accessLog
	})
	u, err := url.Parse(target)
	if err != nil {
		b.Fatal(err)
	}
	r := &http.Request{Method: "POST", URL: u, Header: http.Header{"Authorization": {"Bearer all-key"}, "User-Agent": {"bench"}, "Accept-Encoding": {"gzip"}}, ContentLength: int64(len(payload))}
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	w := &nullWriter{h: http.Header{}}
	in := &body{}
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(payload)
		r.Body = in
		clear(w.h)
		s.ServeHTTP(w, r)
	}
}

func BenchmarkSend(b *testing.B) {
	benchmarkCall(b, testQueue+"/send", strings.Repeat("x", 256), false, nil)
}

func BenchmarkSendKeyed(b *testing.B) {
	benchmarkCall(b, testQueue+"/send", strings.Repeat("x", 256), false, header{headerDedupString, "order-4711"})
}

func BenchmarkSendLogged(b *testing.B) {
	benchmarkCall(b, testQueue+"/send", strings.Repeat("x", 256), true, nil)
}

func BenchmarkReceive(b *testing.B) {
	benchmarkCall(b, testQueue+"/recv?waitSeconds=0", "", false, nil)
}

func BenchmarkAck(b *testing.B) {
	benchmarkCall(b, spoolURL+"/ack", "", false, header{headerLease, sealed(fsm.Lease)})
}
