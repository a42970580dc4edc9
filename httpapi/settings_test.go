package httpapi

import (
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestSettingsBodies(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	tests := []struct {
		body string
		ok   bool
	}{
		{``, true},
		{`{}`, true},
		{" {\n}\t ", true},
		{`{"leaseTimeoutSeconds":0,"maxRetries":0,"dedupWindowSeconds":0,"retentionSeconds":60}`, true},
		{`{"leaseTimeoutSeconds":43200,"maxRetries":1000,"dedupWindowSeconds":604800,"retentionSeconds":1209600}`, true},
		{`{"recvRateLimit":null}`, true},
		{`{"recvRateLimit":{"intervalMicros":0,"burst":0}}`, true},
		{`{"recvRateLimit":{"intervalMicros":1,"burst":1}}`, true},
		{`{"recvRateLimit":{"burst":1000000,"intervalMicros":3600000000}}`, true},
		{`{"max\u0052etries":1}`, true},

		{`{"leaseTimeoutSeconds":43201}`, false},
		{`{"leaseTimeoutSeconds":-1}`, false},
		{`{"leaseTimeoutSeconds":-0}`, false},
		{`{"maxRetries":1001}`, false},
		{`{"dedupWindowSeconds":604801}`, false},
		{`{"retentionSeconds":59}`, false},
		{`{"retentionSeconds":1209601}`, false},
		{`{"retentionSeconds":0}`, false},
		{`{"maxRetries":5.0}`, false},
		{`{"maxRetries":5e0}`, false},
		{`{"maxRetries":"5"}`, false},
		{`{"maxRetries":null}`, false},
		{`{"maxRetries":true}`, false},
		{`{"maxRetries":[5]}`, false},
		{`{"maxRetries":{}}`, false},
		{`{"maxRetries":4294967301}`, false},
		{`{"maxRetries":18446744073709551621}`, false},
		{`{"maxRetries":1` + strings.Repeat("0", 1000) + `}`, false},
		{`{"maxRetries":05}`, false},
		{`{"maxRetries":5,"maxRetries":5}`, false},
		{`{"maxRetries":5,"max\u0052etries":5}`, false},
		{`{"MaxRetries":5}`, false},
		{`{"maxretries":5}`, false},
		{`{"unknown":5}`, false},
		{`{"":5}`, false},
		{`{"` + strings.Repeat("x", 5000) + `":5}`, false},
		{`{"effectiveRetentionSeconds":60}`, false},
		{`{"name":"orders"}`, false},
		{`{"recvRateLimit":{}}`, false},
		{`{"recvRateLimit":[]}`, false},
		{`{"recvRateLimit":0}`, false},
		{`{"recvRateLimit":"off"}`, false},
		{`{"recvRateLimit":{"intervalMicros":1}}`, false},
		{`{"recvRateLimit":{"burst":1}}`, false},
		{`{"recvRateLimit":{"intervalMicros":0,"burst":1}}`, false},
		{`{"recvRateLimit":{"intervalMicros":1,"burst":0}}`, false},
		{`{"recvRateLimit":{"intervalMicros":3600000001,"burst":1}}`, false},
		{`{"recvRateLimit":{"intervalMicros":1,"burst":1000001}}`, false},
		{`{"recvRateLimit":{"intervalMicros":1,"burst":1,"burst":1}}`, false},
		{`{"recvRateLimit":{"intervalMicros":1,"burst":1,"x":1}}`, false},
		{`{"recvRateLimit":{"intervalMicros":null,"burst":1}}`, false},
		{`{"recvRateLimit":null,"recvRateLimit":null}`, false},
		{`null`, false},
		{`[]`, false},
		{`"{}"`, false},
		{`5`, false},
		{`{`, false},
		{`{"maxRetries":5`, false},
		{`{"maxRetries"}`, false},
		{`{"maxRetries":}`, false},
		{`{"maxRetries" 5}`, false},
		{`{maxRetries:5}`, false},
		{`{"maxRetries":5,}`, false},
		{`{,"maxRetries":5}`, false},
		{`{} {}`, false},
		{`{}x`, false},
		{`{}]`, false},
		{"\xef\xbb\xbf{}", false},
		{` `, false},
		{"\x00", false},
		{"{\"maxRetries\":5}\x00", false},
		{deep[:maxJSONBytes], false},
		{strings.Repeat("[", maxJSONBytes), false},
		{strings.Repeat(`{"recvRateLimit":`, 3000), false},
	}
	for _, test := range tests {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "PUT", testQueue, test.body)
		if _, asked := b.asked(); (asked == 1) != test.ok {
			t.Errorf("%.80s: proposed %d times", test.body, asked)
		}
		if test.ok {
			wantStatus(t, w, 201)
			continue
		}
		body := w.Body.Len()
		wantProblem(t, w, 400, "")
		if body > 1000 {
			t.Errorf("%.80s: the answer has %d bytes", test.body, body)
		}
	}
}

func TestSettingsAsProposed(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	body := `{"leaseTimeoutSeconds":1,"maxRetries":2,"dedupWindowSeconds":3,"retentionSeconds":64,"recvRateLimit":{"intervalMicros":5,"burst":6}}`
	wantStatus(t, do(s, "PATCH", testQueue, body), 200)
	want := fsm.FullPatch(fsm.Settings{LeaseTimeoutSeconds: 1, MaxRetries: 2, DedupWindowSeconds: 3, RetentionSeconds: 64,
		RecvRateLimit: fsm.RateLimit{IntervalMicros: 5, Burst: 6}})
	if c := b.proposed(); c.Op != fsm.OpUpdateQueue || c.Spool != "default" || c.Queue != "orders" || c.Patch != want {
		t.Errorf("%+v", c)
	}
	for body, set := range map[string]fsm.Field{`{"maxRetries":0}`: fsm.FieldMaxRetries, `{"recvRateLimit":null}`: fsm.FieldRecvRateLimit,
		`{"recvRateLimit":{"intervalMicros":0,"burst":0}}`: fsm.FieldRecvRateLimit} {
		patch, p := parseSettings(body)
		if p != nil || patch != (fsm.Patch{Set: set}) {
			t.Errorf("%s: %+v, %v", body, patch, p)
		}
	}
}

// TestSettingsBounds: what this package takes, the machine takes.
func TestSettingsBounds(t *testing.T) {
	for _, s := range settings {
		if s.put == nil {
			continue
		}
		for _, n := range []uint64{s.least, s.most} {
			patch := fsm.Patch{Set: s.field}
			s.put(&patch.To, n)
			if !patch.Valid() {
				t.Errorf("%s %d is taken here and not by the machine", s.name, n)
			}
		}
		patch := fsm.Patch{Set: s.field}
		if s.put(&patch.To, s.most+1); patch.Valid() {
			t.Errorf("%s %d is taken by the machine and not here", s.name, s.most+1)
		}
	}
}

func TestPatchOfNothing(t *testing.T) {
	for _, body := range []string{"", "{}", " { } "} {
		b := &fakeBroker{}
		wantProblem(t, do(newTestServer(t, b), "PATCH", testQueue, body), 400, "")
		if _, asked := b.asked(); asked != 0 {
			t.Errorf("%q was proposed", body)
		}
	}
}

func TestJSONBodyTooLarge(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	fits := "{" + strings.Repeat(" ", maxJSONBytes-2) + "}"
	wantStatus(t, do(s, "PUT", testQueue, fits), 201)
	wantProblem(t, do(s, "PUT", testQueue, fits+" "), 413, "payload_too_large")
	wantProblem(t, do(s, "PATCH", testQueue, fits+" "), 413, "payload_too_large")
}
