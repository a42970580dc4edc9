package httpapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newTestServer(t, newLocalBroker(), func(c *Config) { c.Metrics = registry })
	newQueue(t, s, `{"dedupWindowSeconds":60}`)
	do(s, "POST", testQueue+"/send", "", headerDedupString, "k")
	do(s, "POST", testQueue+"/send", "", headerDedupString, "k")
	do(s, "POST", testQueue+"/send", "", headerDedupString, "")
	lease := recv(t, s).lease
	do(s, "POST", testQueue+"/recv?waitSeconds=0", "")
	do(s, "POST", spoolURL+"/ack-and-send", "", headerLease, lease, headerQueue, "orders", headerDedupString, "k")
	do(s, "POST", "/v1/spools/a.b/whatever", "")
	for label, want := range map[[2]string]float64{
		{"send", "ok"}: 1, {"send", "duplicate"}: 1, {"send", "bad_request"}: 1, {"receive", "ok"}: 1, {"receive", "empty"}: 1,
		{"ack_and_send", "dedup_claimed"}: 1, {"not_found", "path_not_found"}: 1, {"queue_create", "ok"}: 1,
	} {
		if got := testutil.ToFloat64(s.metrics.requests.WithLabelValues(label[0], label[1])); got != want {
			t.Errorf("%v: %v", label, got)
		}
	}
	if got := testutil.ToFloat64(s.metrics.dedupHits); got != 2 {
		t.Errorf("%v dedup hits", got)
	}
	if got := testutil.ToFloat64(s.metrics.inFlight); got != 0 {
		t.Errorf("%v in flight", got)
	}
	page := do(s, "GET", "/metrics", "", "Authorization", "").Body.String()
	for _, line := range []string{
		`spoolraft_http_requests_total{operation="send",outcome="duplicate"} 1`,
		`spoolraft_http_request_duration_seconds_count{operation="send"} 3`,
		`spoolraft_http_requests_in_flight 1`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%s is missing", line)
		}
	}
	if strings.Contains(page, "whatever") || strings.Contains(page, "orders") {
		t.Error("a label holds what a client sent")
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if _, err := New(Config{Broker: &fakeBroker{}, AnyKey: true, Metrics: registry}); err == nil {
		t.Error("a registry was taken twice")
	}
}

func TestWaitingCountsAsInFlight(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	b.onWait = func(context.Context) (fsm.Result, error) {
		if got := testutil.ToFloat64(s.metrics.inFlight); got != 1 {
			t.Errorf("%v in flight", got)
		}
		return fsm.Result{Code: fsm.CodeEmpty}, nil
	}
	wantStatus(t, do(s, "POST", testQueue+"/recv", ""), 204)
}

func TestHealthAndReady(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	w := do(s, "GET", "/healthz", "")
	wantStatus(t, w, 200)
	if got := fields(t, w); got["status"] != "ok" || got["version"] != "test" {
		t.Errorf("%v", got)
	}
	w = do(s, "GET", "/readyz", "")
	wantStatus(t, w, 200)
	if got := fields(t, w); got["ready"] != true || got["reason"] != nil {
		t.Errorf("%v", got)
	}
	b.notReady = errors.New("no leader is known")
	w = do(s, "GET", "/readyz", "")
	wantStatus(t, w, 503)
	if got := fields(t, w); got["ready"] != false || got["reason"] != "no leader is known" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%v", got)
	}
	wantStatus(t, do(s, "GET", "/healthz", ""), 200)
	for _, path := range []string{"/healthz", "/metrics", "/openapi.yaml"} {
		wantStatus(t, do(s, "HEAD", path, ""), 200)
	}
}
