package faults

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/httpapi"
)

// TestFaults: what a client sees of each fault, and whether the call was made.
func TestFaults(t *testing.T) {
	tests := []struct {
		rule    string
		status  int // 0: no answer
		carried int64
		hidden  uint64
	}{
		{`{"fault":"drop"}`, 0, 1, 1},
		{`{"fault":"reset"}`, 0, 0, 0},
		{`{"fault":"500"}`, 500, 1, 1},
		{`{"fault":"500","when":"before"}`, 500, 0, 0},
		{`{"fault":"502","when":"after"}`, 502, 1, 1},
		{`{"fault":"502","when":"before"}`, 502, 0, 0},
		{`{"fault":"503"}`, 503, 0, 0},
		{`{"fault":"504"}`, 504, 1, 1},
		{`{"fault":"504","when":"before"}`, 504, 0, 0},
		{`{"fault":"delay","delayMs":1}`, 201, 1, 0},
		{`{"fault":"delay","when":"after","delayMs":1}`, 201, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s := newServer(t)
			s.add(tt.rule)
			got, err := s.call("POST", sendPath, strings.Repeat("x", 100_000))
			if got.status != tt.status || (err == nil) != (tt.status != 0) {
				t.Errorf("answered %d (%v), want %d", got.status, err, tt.status)
			}
			if tt.status == 0 && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
				t.Errorf("the connection ended with %v, want a reset", err)
			}
			if n := s.broker.calls.Load(); n != tt.carried {
				t.Errorf("the call was carried out %d times, want %d", n, tt.carried)
			}
			if tt.status != 0 && got.header.Get("X-Request-Id") == "" && tt.status != 502 && tt.status != 504 {
				t.Error("the answer has no request id")
			}
			if r := s.rules()[0]; r.Matched != 1 || r.Injected != 1 || r.HiddenSuccesses != tt.hidden {
				t.Errorf("the rule did %+v", r)
			}
			s.mustCall("DELETE", rulesPath, "", 204)
			s.mustCall("POST", sendPath, "x", 201)
		})
	}
}

// TestAnswersAreTheAPIs: what is injected differs in nothing from what the API
// answers when its cluster fails.
func TestAnswersAreTheAPIs(t *testing.T) {
	tests := []struct {
		rule         string
		err          error
		method, path string
	}{
		{`{"fault":"503"}`, fsm.ErrNotApplied, "POST", sendPath},
		{`{"fault":"503"}`, fsm.ErrNotApplied, "GET", "/v1/spools/default/stats"},
		{`{"fault":"500"}`, fsm.ErrUnknown, "POST", sendPath},
		{`{"fault":"500","when":"before"}`, fsm.ErrUnknown, "POST", sendPath},
	}
	requestID := regexp.MustCompile(`^[0-9a-f]{8}-[0-9]+$`)
	for _, tt := range tests {
		t.Run(tt.rule+" "+tt.path, func(t *testing.T) {
			failing := newServer(t)
			failing.broker.err = tt.err
			want, err := failing.call(tt.method, tt.path, "")
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t)
			s.add(tt.rule)
			got, err := s.call(tt.method, tt.path, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range []http.Header{got.header, want.header} {
				if id := h.Get("X-Request-Id"); !requestID.MatchString(id) {
					t.Errorf("request id %q", id)
				}
				h.Del("X-Request-Id")
				h.Del("Date")
			}
			if got.status != want.status || got.body != want.body || !maps.EqualFunc(got.header, want.header, slices.Equal[[]string]) {
				t.Errorf("injected %+v\nwant     %+v", got, want)
			}
		})
	}
}

// TestOperationsAreTheAPIs: every call under /v1 can be named, by the name that
// metrics give it.
func TestOperationsAreTheAPIs(t *testing.T) {
	registry := prometheus.NewRegistry()
	api := newAPI(t, &broker{}, func(c *httpapi.Config) { c.Metrics = registry })
	names := map[string]bool{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "operation" {
					names[l.GetValue()] = true
				}
			}
		}
	}
	for _, public := range []string{"health", "ready", "metrics", "openapi", "options", "not_found", "method_not_allowed"} {
		delete(names, public)
	}
	for _, op := range operations {
		if !names[op.name] {
			t.Errorf("the API knows no operation %s", op.name)
		}
		delete(names, op.name)
	}
	if len(names) > 0 {
		t.Errorf("no rule can name %v", slices.Sorted(maps.Keys(names)))
	}

	calls := documented(t, api)
	for _, op := range operations {
		call := op.method + " " + regexp.MustCompile(`:(\w+)`).ReplaceAllString(op.path, "{$1}")
		if !calls[call] {
			t.Errorf("%s is %s, which the document of the API does not have", op.name, call)
		}
		delete(calls, call)
	}
	if len(calls) > 0 {
		t.Errorf("no operation is %v", slices.Sorted(maps.Keys(calls)))
	}
}

// documented are the calls under /v1 in the API's own document.
func documented(t *testing.T, api http.Handler) map[string]bool {
	t.Helper()
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.yaml", nil))
	var (
		calls    = map[string]bool{}
		pathLine = regexp.MustCompile(`^  (/\S*):$`)
		verbLine = regexp.MustCompile(`^    (get|put|post|patch|delete):$`)
		path     string
	)
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if m := pathLine.FindStringSubmatch(line); m != nil {
			path = m[1]
		} else if m := verbLine.FindStringSubmatch(line); m != nil && strings.HasPrefix(path, "/v1/") {
			calls[strings.ToUpper(m[1])+" "+path] = true
		}
	}
	return calls
}

// TestTargets: which calls a rule strikes.
func TestTargets(t *testing.T) {
	tests := []struct {
		name, rule, method, path string
		header                   []string
		struck                   bool
	}{
		{"any call", `{"fault":"503"}`, "GET", "/v1/spools/default/stats", nil, true},
		{"a call that there is not", `{"fault":"503"}`, "POST", "/v1/nothing", nil, true},
		{"not health", `{"fault":"503"}`, "GET", "/healthz", nil, false},
		{"the operation", `{"fault":"503","operation":"send"}`, "POST", sendPath, nil, true},
		{"another operation", `{"fault":"503","operation":"receive"}`, "POST", sendPath, nil, false},
		{"another method", `{"fault":"503","operation":"queue_create"}`, "PATCH", "/v1/spools/default/queues/orders", nil, false},
		{"head is get", `{"fault":"503","operation":"stats"}`, "HEAD", "/v1/spools/default/stats", nil, true},
		{"the queue", `{"fault":"503","queue":"orders"}`, "POST", sendPath, nil, true},
		{"the queue, escaped", `{"fault":"503","queue":"orders"}`, "POST", "/v1/spools/default/queues/%6Frders/send", nil, true},
		{"another queue", `{"fault":"503","queue":"order"}`, "POST", sendPath, nil, false},
		{"a queue, a call without one", `{"fault":"503","queue":"orders"}`, "POST", "/v1/spools/default/ack", nil, false},
		{"the queue of the header", `{"fault":"503","operation":"ack_and_send","queue":"orders"}`, "POST", "/v1/spools/default/ack-and-send", []string{"Spooler-Queue", "orders"}, true},
		{"the spool", `{"fault":"503","spool":"default"}`, "POST", "/v1/spools/default/ack", nil, true},
		{"another spool", `{"fault":"503","spool":"other"}`, "POST", sendPath, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.add(tt.rule)
			got, err := s.call(tt.method, tt.path, "", tt.header...)
			if err != nil || (got.status == 503) != tt.struck {
				t.Errorf("answered %+v (%v), struck is to be %v", got, err, tt.struck)
			}
		})
	}
}

// TestCountAndProbability: a seed draws the same fates in every run, and a rule
// ends with its count.
func TestCountAndProbability(t *testing.T) {
	fates := func(seed int) string {
		s := newServer(t)
		s.add(fmt.Sprintf(`{"fault":"503","probability":0.5,"count":10,"seed":%d}`, seed))
		s.add(`{"fault":"500","probability":0.25,"seed":7}`)
		var b strings.Builder
		for range 60 {
			got, err := s.call("POST", sendPath, "x")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%d ", got.status)
		}
		if r := s.rules(); r[0].Injected != 10 || r[0].Matched >= 60 || r[1].Injected == 0 || r[1].Injected != r[1].HiddenSuccesses {
			t.Errorf("the rules did %+v", r)
		}
		return b.String()
	}
	if a, b := fates(1), fates(1); a != b {
		t.Errorf("one seed drew\n%s and\n%s", a, b)
	}
	if a, b := fates(1), fates(2); a == b {
		t.Errorf("two seeds drew %s", a)
	}
}

// TestDelayThenFault: a delay goes on to the next rule.
func TestDelayThenFault(t *testing.T) {
	s := newServer(t)
	s.add(`{"fault":"delay","delayMs":1}`)
	s.add(`{"fault":"delay","when":"after","delayMs":1}`)
	s.add(`{"fault":"500"}`)
	s.add(`{"fault":"503"}`)
	s.mustCall("POST", sendPath, "x", 500)
	for i, want := range []uint64{1, 1, 1, 0} {
		if got := s.rules()[i].Injected; got != want {
			t.Errorf("rule %d struck %d times, want %d", i+1, got, want)
		}
	}
}

// TestADelayOutlivesItsClient: the call is made although nobody waits for it.
func TestADelayOutlivesItsClient(t *testing.T) {
	s := newServer(t)
	s.broker.did = make(chan struct{}, 1)
	s.add(`{"fault":"delay","delayMs":1000}`)
	s.Client().Timeout = 50 * time.Millisecond
	if got, err := s.call("POST", sendPath, "x"); err == nil {
		t.Fatalf("answered %+v, before the delay was over", got)
	}
	<-s.broker.did
}

// TestALostReceiveKeepsItsLease: nothing is given back, as for a real loss.
func TestALostReceiveKeepsItsLease(t *testing.T) {
	s := newServer(t)
	s.add(`{"fault":"drop","operation":"receive"}`)
	if got, err := s.call("POST", "/v1/spools/default/queues/orders/recv", ""); err == nil {
		t.Fatalf("answered %+v", got)
	}
	if n := s.broker.calls.Load(); n != 0 {
		t.Errorf("%d commands followed the receive", n)
	}
}
