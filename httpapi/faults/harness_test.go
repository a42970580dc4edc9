package faults

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/httpapi"
)

// broker carries out every command, or fails as told, and counts.
type broker struct {
	err   error
	calls atomic.Int64
	did   chan struct{} // gets a value for each command, where it is not nil
}

func (b *broker) Do(context.Context, *fsm.Command) (fsm.Result, error) {
	b.calls.Add(1)
	if b.did != nil {
		b.did <- struct{}{}
	}
	return fsm.Result{ID: fsm.MessageID{Queue: 1, Message: uint64(b.calls.Load())}}, b.err
}

func (b *broker) DoAll(ctx context.Context, cs []fsm.Command) []fsm.Outcome {
	outs := make([]fsm.Outcome, len(cs))
	for i := range cs {
		outs[i].Result, outs[i].Err = b.Do(ctx, &cs[i])
	}
	return outs
}

func (b *broker) Receive(context.Context, string, string, time.Duration) (fsm.Result, error) {
	return fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 1}, Payload: "hello"}, b.err
}

func (b *broker) ReceiveMany(context.Context, string, string, uint32, uint32, time.Duration) (fsm.Result, error) {
	return fsm.Result{Deliveries: []fsm.Delivery{{ID: fsm.MessageID{Queue: 1, Message: 1}, Payload: "hello"}}}, b.err
}

func (b *broker) Read(context.Context, fsm.Query) (fsm.Answer, error) { return fsm.Answer{}, b.err }
func (b *broker) Sealer() (fsm.Sealer, bool)                          { return fsm.Sealer{}, true }
func (b *broker) SpoolState(string) fsm.Code                          { return fsm.CodeOK }
func (b *broker) Ready() error                                        { return nil }

func newAPI(t *testing.T, b *broker, change ...func(*httpapi.Config)) *httpapi.Server {
	t.Helper()
	config := httpapi.Config{Broker: b, AnyKey: true, Metrics: prometheus.NewRegistry()}
	for _, f := range change {
		f(&config)
	}
	api, err := httpapi.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// server is an API behind an injector, on a real connection.
type server struct {
	*httptest.Server
	t      *testing.T
	broker *broker
}

func newServer(t *testing.T, change ...func(*httpapi.Config)) *server {
	t.Helper()
	b := &broker{}
	s := &server{t: t, broker: b, Server: httptest.NewServer(New(slog.New(slog.DiscardHandler)).Wrap(newAPI(t, b, change...)))}
	t.Cleanup(s.Close)
	return s
}

const sendPath = "/v1/spools/default/queues/orders/send"

type answered struct {
	status int
	header http.Header
	body   string
}

// call makes one call. The error is that of a connection without an answer.
func (s *server) call(method, path, body string, header ...string) (answered, error) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return answered{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, string(text)}, err
}

func (s *server) mustCall(method, path, body string, want int, header ...string) answered {
	s.t.Helper()
	a, err := s.call(method, path, body, header...)
	if err != nil || a.status != want {
		s.t.Fatalf("%s %s %s: %+v (%v), want %d", method, path, body, a, err, want)
	}
	return a
}

func (s *server) add(rule string) {
	s.t.Helper()
	s.mustCall("POST", rulesPath, rule, 201)
}

func (s *server) rules() []ruleJSON {
	s.t.Helper()
	var page struct{ Items []ruleJSON }
	if err := json.Unmarshal([]byte(s.mustCall("GET", rulesPath, "", 200).body), &page); err != nil {
		s.t.Fatal(err)
	}
	return page.Items
}
