package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestProblemsOfResults drives every code of the machine, and every failure of
// agreement, through a call that can meet it.
func TestProblemsOfResults(t *testing.T) {
	lease, handle := []string{headerLease, sealed(fsm.Lease)}, []string{headerHandle, sealed(fsm.Handle)}
	send := func(h ...string) func(*Server) (string, string, []string) {
		return func(*Server) (string, string, []string) { return "POST", testQueue + "/send", h }
	}
	post := func(path string, h []string) func(*Server) (string, string, []string) {
		return func(*Server) (string, string, []string) { return "POST", path, h }
	}
	method := func(method, path string) func(*Server) (string, string, []string) {
		return func(*Server) (string, string, []string) { return method, path, nil }
	}
	const spool = "/v1/spools/default"
	tests := []struct {
		name    string
		call    func(*Server) (string, string, []string)
		result  fsm.Result
		err     error
		status  int
		kind    string
		details map[string]any
		retry   string
	}{
		{name: "invalid token", call: post(spool+"/ack", lease), result: fsm.Result{Code: fsm.CodeInvalidToken}, status: 400, kind: "invalid_token"},
		{name: "dedup disabled", call: send(headerDedupString, "k"), result: fsm.Result{Code: fsm.CodeDedupDisabled}, status: 400, kind: "dedup_disabled"},
		{name: "out of bounds", call: send(), result: fsm.Result{Code: fsm.CodeInvalidCommand}, status: 400},
		{name: "suspended since", call: send(), result: fsm.Result{Code: fsm.CodeSpoolSuspended}, status: 402},
		{name: "retention", call: method("PUT", testQueue), result: fsm.Result{Code: fsm.CodeRetentionLimit, Max: 3600}, status: 403, kind: "retention_limit", details: map[string]any{"maxSeconds": 3600.0}},
		{name: "queue limit", call: method("PUT", testQueue), result: fsm.Result{Code: fsm.CodeQueueLimit, Max: 7}, status: 403, kind: "queue_limit", details: map[string]any{"max": 7.0}},
		{name: "no queue", call: send(), result: fsm.Result{Code: fsm.CodeQueueNotFound}, status: 404, kind: "queue_not_found", details: map[string]any{"queue": "orders"}},
		{name: "no target", call: post(spool+"/ack-and-send", append([]string{headerQueue, "bills"}, lease...)), result: fsm.Result{Code: fsm.CodeQueueNotFound}, status: 404, kind: "queue_not_found", details: map[string]any{"queue": "bills"}},
		{name: "no spool", call: send(), result: fsm.Result{Code: fsm.CodeSpoolNotFound}, status: 404, kind: "spool_not_found"},
		{name: "queue exists", call: method("PUT", testQueue), result: fsm.Result{Code: fsm.CodeQueueExists}, status: 409, kind: "queue_exists"},
		{name: "queue deleting", call: send(), result: fsm.Result{Code: fsm.CodeQueueDeleting}, status: 409, kind: "queue_deleting"},
		{name: "queue replaced", call: method("DELETE", testQueue+"?mode=force&uid=1"), result: fsm.Result{Code: fsm.CodeQueueReplaced}, status: 409, kind: "queue_replaced"},
		{name: "not failed", call: post(spool+"/recover", handle), result: fsm.Result{Code: fsm.CodeNotFailed}, status: 409, kind: "not_failed"},
		{name: "in flight", call: send(headerDedupString, "k"), result: fsm.Result{Code: fsm.CodeDedupInFlight}, status: 409, kind: "dedup_in_flight"},
		{name: "claimed", call: post(spool+"/ack-and-send", append([]string{headerQueue, "bills"}, lease...)), result: fsm.Result{Code: fsm.CodeDedupClaimed, ID: fsm.MessageID{Queue: 3, Message: 9}}, status: 409, kind: "dedup_claimed", details: map[string]any{"id": "3-9"}},
		{name: "stale lease", call: post(spool+"/nack", lease), result: fsm.Result{Code: fsm.CodeStaleToken}, status: 410, kind: "stale_token"},
		{name: "stale handle", call: post(spool+"/discard", handle), result: fsm.Result{Code: fsm.CodeStaleToken}, status: 410, kind: "stale_token"},
		{name: "rate limited", call: method("POST", testQueue+"/recv"), result: fsm.Result{Code: fsm.CodeRateLimited, RetryAfterMs: 2001}, status: 429, kind: "rate_limited", retry: "3"},
		{name: "rate limited, nearly over", call: method("POST", testQueue+"/recv"), result: fsm.Result{Code: fsm.CodeRateLimited}, status: 429, kind: "rate_limited", retry: "1"},
		{name: "full of messages", call: send(), result: fsm.Result{Code: fsm.CodeSpoolFull, Cap: fsm.CapMessages, Max: 5}, status: 507, kind: "spool_full", details: map[string]any{"limit": "messages", "max": 5.0}},
		{name: "full of bytes", call: send(), result: fsm.Result{Code: fsm.CodeSpoolFull, Cap: fsm.CapDataBytes, Max: 6}, status: 507, kind: "spool_full", details: map[string]any{"limit": "dataBytes", "max": 6.0}},
		{name: "full of keys", call: send(), result: fsm.Result{Code: fsm.CodeSpoolFull, Cap: fsm.CapDedupKeys, Max: 7}, status: 507, kind: "spool_full", details: map[string]any{"limit": "dedupKeys", "max": 7.0}},
		{name: "not initialised", call: send(), result: fsm.Result{Code: fsm.CodeNotInitialised}, status: 503, retry: "1"},
		{name: "code of a later version", call: send(), result: fsm.Result{Code: 200}, status: 500, kind: "operation_unconfirmed"},

		{name: "send not applied", call: send(), err: fsm.ErrNotApplied, status: 503, retry: "1"},
		{name: "send closed", call: send(), err: fmt.Errorf("wrapped: %w", fsm.ErrClosed), status: 503, retry: "1"},
		{name: "send unknown", call: send(), err: fmt.Errorf("wrapped: %w", fsm.ErrUnknown), status: 500, kind: "operation_unconfirmed"},
		{name: "send other", call: send(), err: context.DeadlineExceeded, status: 500, kind: "operation_unconfirmed"},
		{name: "receive not applied", call: method("POST", testQueue+"/recv"), err: fsm.ErrNotApplied, status: 503, retry: "1"},
		{name: "receive unknown", call: method("POST", testQueue+"/recv"), err: fsm.ErrUnknown, status: 500, kind: "operation_unconfirmed"},
		{name: "read not applied", call: method("GET", testQueue), err: fsm.ErrNotApplied, status: 503, retry: "1"},
		{name: "read unknown", call: method("GET", testQueue), err: fsm.ErrUnknown, status: 503, retry: "1"},
		{name: "inspect unknown", call: post(spool+"/inspect", handle), err: fsm.ErrUnknown, status: 503, retry: "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newTestServer(t, &fakeBroker{result: test.result, err: test.err})
			method, target, h := test.call(s)
			w := do(s, method, target, "", h...)
			retry := w.Header().Get("Retry-After")
			got := wantProblem(t, w, test.status, test.kind)
			if retry != test.retry {
				t.Errorf("Retry-After %q, want %q", retry, test.retry)
			}
			var details map[string]any
			if got.Details != nil {
				details = got.Details.(map[string]any)
			}
			if !reflect.DeepEqual(details, test.details) {
				t.Errorf("details %v, want %v", details, test.details)
			}
		})
	}
}

// TestReadRefusals: what a query answers instead of data.
func TestReadRefusals(t *testing.T) {
	const spool = "/v1/spools/default"
	tests := []struct {
		method, target string
		h              []string
		code           fsm.Code
		status         int
		kind           string
	}{
		{"GET", testQueue, nil, fsm.CodeQueueNotFound, 404, "queue_not_found"},
		{"GET", testQueue + "/messages?after=1-1", nil, fsm.CodeQueueNotFound, 404, "queue_not_found"},
		{"GET", spool + "/queues", nil, fsm.CodeSpoolNotFound, 404, "spool_not_found"},
		{"GET", spool + "/stats", nil, fsm.CodeSpoolSuspended, 402, ""},
		{"POST", spool + "/inspect", []string{headerHandle, sealed(fsm.Handle)}, fsm.CodeStaleToken, 410, "stale_token"},
	}
	for _, test := range tests {
		s := newTestServer(t, &fakeBroker{answer: fsm.Answer{Code: test.code}})
		wantProblem(t, do(s, test.method, test.target, "", test.h...), test.status, test.kind)
	}
}

// TestNothingInternalLeaks: an error's own text is never shown.
func TestNothingInternalLeaks(t *testing.T) {
	secret := "10.1.2.3:7000 /var/lib raft"
	for _, err := range []error{fsm.ErrNotApplied, fsm.ErrUnknown, fsm.ErrClosed} {
		s := newTestServer(t, &fakeBroker{err: fmt.Errorf("%s: %w", secret, err)})
		for _, target := range []string{"/send", "/recv"} {
			if w := do(s, "POST", testQueue+target, ""); strings.Contains(w.Body.String(), "10.1.2.3") {
				t.Errorf("the answer shows the error: %s", w.Body)
			}
		}
	}
}

func TestPanicIsUnconfirmed(t *testing.T) {
	b := &fakeBroker{onDo: func(fsm.Command) (fsm.Result, error) { panic("payload and path /etc/x") }}
	s := newTestServer(t, b)
	w := do(s, "POST", testQueue+"/send", "x")
	body := w.Body.String()
	wantProblem(t, w, 500, "operation_unconfirmed")
	if strings.Contains(body, "/etc/x") {
		t.Errorf("the answer shows the panic: %s", body)
	}
	// The server goes on.
	b.onDo = nil
	wantStatus(t, do(s, "POST", testQueue+"/send", "x"), http.StatusCreated)
}
