package httpapi

import (
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestPaths(t *testing.T) {
	s := newTestServer(t, &fakeBroker{answer: fsm.Answer{Queues: []fsm.QueueStats{{QueueInfo: someQueue}}}})
	long := strings.Repeat("q", 128)
	tests := []struct {
		method, target string
		status         int
	}{
		{"GET", "/v1/spools/default/queues/" + long, 200},
		{"GET", "/v1/spools/default/queues/" + long + "q", 400},
		{"GET", "/v1/spools/" + long + "/queues/q", 200},
		{"GET", "/v1/spools/" + long + "s/queues/q", 400},
		{"GET", "/v1/spools/default/queues/A-z_0:9", 200},
		{"GET", "/v1/spools/default/queues/A%2Dz%5f0%3A9", 200},
		{"GET", "/v1/spools/%64efault/%71ueues/a", 200},
		{"GET", "/v1/spools/default/queues/a.b", 400},
		{"GET", "/v1/spools/default/queues/a%20b", 400},
		{"GET", "/v1/spools/default/queues/a+b", 400},
		{"GET", "/v1/spools/default/queues/a%2Fb", 400},
		{"GET", "/v1/spools/default/queues/a%2fmessages", 400},
		{"GET", "/v1/spools/default%2Fqueues%2Fa", 404},
		{"GET", "/v1/spools/default/queues/%00", 400},
		{"GET", "/v1/spools/default/queues/a%252Fb", 400},
		{"GET", "/v1/spools/default/queues/%C3%A9", 400},
		{"GET", "/v1/spools/default/queues/..", 400},
		{"GET", "/v1/spools/../queues/a", 400},
		{"GET", "/v1/spools/default/queues/:queue", 200}, // a colon is part of a name
		{"POST", "/v1/spools/default/queues/a.b/send", 400},

		{"GET", "/", 404},
		{"GET", "/v1", 404},
		{"GET", "/v1/", 404},
		{"GET", "/v2/spools", 404},
		{"GET", "/v1/spools", 404},
		{"GET", "/v1/spools/default", 404},
		{"GET", "/v1/spools/default/", 404},
		{"GET", "/v1/spools/default/queues/", 404},
		{"GET", "/v1/spools/default/queues/q/", 404},
		{"GET", "/v1/spools//queues/q", 400},
		{"GET", "//v1/spools/default/queues/q", 404},
		{"GET", "/V1/spools/default/queues/q", 404},
		{"GET", "/v1/spools/default/queues/q/messages/1-1", 404},
		{"POST", "/v1/spools/default/queues/q/Send", 404},
		{"POST", "/v1/spools/default/nope", 404},
		{"POST", "/v1/spools/default/ack/", 404},
		{"GET", "/healthz/", 404},
	}
	for _, test := range tests {
		w := do(s, test.method, test.target, "")
		if w.Code != test.status {
			t.Errorf("%s %s: %d, want %d", test.method, test.target, w.Code, test.status)
			continue
		}
		if test.status != 200 {
			wantProblem(t, w, test.status, "")
		}
	}
}

func TestMethods(t *testing.T) {
	s := newTestServer(t, &fakeBroker{}, func(c *Config) { c.AnyKey, c.Keys = false, parseTestKeys(t) })
	const spool = "/v1/spools/default"
	tests := map[string]string{
		testQueue:               "PUT, GET, HEAD, PATCH, DELETE, OPTIONS",
		testQueue + "/send":     "POST, OPTIONS",
		testQueue + "/recv":     "POST, OPTIONS",
		testQueue + "/messages": "GET, HEAD, OPTIONS",
		spool + "/queues":       "GET, HEAD, OPTIONS",
		spool + "/stats":        "GET, HEAD, OPTIONS",
		spool + "/ack":          "POST, OPTIONS",
		spool + "/ack-and-send": "POST, OPTIONS",
		"/healthz":              "GET, HEAD, OPTIONS",
		"/metrics":              "GET, HEAD, OPTIONS",
	}
	key := header{"Authorization", "Bearer read-key"}
	for target, allow := range tests {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "FOO", "get"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := do(s, method, target, "", key...)
			if got := w.Header()["Allow"]; len(got) != 1 || got[0] != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, target, got, allow)
			}
			wantProblem(t, w, 405, "")
		}
		w := do(s, "OPTIONS", target, "", key...)
		wantStatus(t, w, 204)
		if got := w.Header()["Allow"]; len(got) != 1 || got[0] != allow {
			t.Errorf("OPTIONS %s: Allow %q", target, got)
		}
	}
}

// TestKeyComesFirst: under /v1 nothing answers without a key, not even what is
// not there; beside it no key is asked for.
func TestKeyComesFirst(t *testing.T) {
	s := newTestServer(t, &fakeBroker{})
	none := header{"Authorization", ""}
	for _, call := range [][2]string{{"GET", "/v1"}, {"GET", "/v1/nope"}, {"GET", testQueue}, {"POST", testQueue}, {"OPTIONS", testQueue}, {"HEAD", testQueue}} {
		if w := do(s, call[0], call[1], "", none...); w.Code != 401 {
			t.Errorf("%v: %d", call, w.Code)
		}
	}
	for _, call := range [][2]string{{"GET", "/nope"}, {"GET", "/v1x"}} {
		wantProblem(t, do(s, call[0], call[1], "", none...), 404, "")
	}
	wantProblem(t, do(s, "POST", "/healthz", "", none...), 405, "")
	wantStatus(t, do(s, "GET", "/healthz", "", none...), 200)
}

func TestBodiesWhereNoneBelong(t *testing.T) {
	lease := header{headerLease, sealed(fsm.Lease)}
	tests := []struct {
		method, target string
		h              header
	}{
		{"GET", testQueue, nil},
		{"DELETE", testQueue + "?mode=force", nil},
		{"POST", testQueue + "/recv", nil},
		{"POST", "/v1/spools/default/ack", lease},
		{"GET", testQueue + "/messages", nil},
	}
	for _, test := range tests {
		b := &fakeBroker{}
		s := newTestServer(t, b)
		wantProblem(t, do(s, test.method, test.target, "{}", test.h...), 400, "")
		r := newRequest(test.method, test.target, "x", test.h)
		r.ContentLength = -1
		wantProblem(t, serve(s, r), 411, "")
		if _, asked := b.asked(); asked != 0 {
			t.Errorf("%s %s: the broker was asked", test.method, test.target)
		}
	}
}

func TestPayloadSizes(t *testing.T) {
	for _, limit := range []int64{0, 1, 100_000, 300_000} {
		b := &fakeBroker{}
		s := newTestServer(t, b, func(c *Config) { c.MaxPayloadBytes = limit })
		most := limit
		if limit == 0 {
			most = 1 << 20
		}
		payload := strings.Repeat("0123456789", int(most/10)+1)[:most]
		wantStatus(t, do(s, "POST", testQueue+"/send", payload), 201)
		if b.proposed().Payload != payload {
			t.Errorf("limit %d: the payload was changed", limit)
		}
		wantProblem(t, do(s, "POST", testQueue+"/send", payload+"x"), 413, "payload_too_large")
	}
	for _, limit := range []int64{-1, fsm.MaxPayloadBytes + 1} {
		if _, err := New(Config{Broker: &fakeBroker{}, AnyKey: true, MaxPayloadBytes: limit}); err == nil {
			t.Errorf("a limit of %d was taken", limit)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{AnyKey: true}); err == nil {
		t.Error("no broker was taken")
	}
	if _, err := New(Config{Broker: &fakeBroker{}}); err == nil {
		t.Error("no keys were taken")
	}
}
