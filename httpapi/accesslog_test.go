package httpapi

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// syncBuffer is a buffer that may be written and read at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func withLog(w *syncBuffer) func(*Config) {
	return func(c *Config) {
		c.Logger, c.AccessLog = slog.New(slog.NewJSONHandler(w, nil)), true
	}
}

// TestAccessLogHoldsNoSecrets puts a secret everywhere that a client can write
// and looks for it in the log and the metrics.
func TestAccessLogHoldsNoSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	var log syncBuffer
	b := newLocalBroker()
	s := newTestServer(t, b, withLog(&log))
	auth := []string{"Authorization", "Bearer key-" + secret}
	post := func(method, target, body string, h ...string) string {
		w := do(s, method, target, body, append(h, auth...)...)
		return w.Header().Get(headerLease) + w.Header().Get(headerHandle)
	}
	post("PUT", testQueue, `{"dedupWindowSeconds":60}`)
	handle := post("POST", testQueue+"/send?handle=true", "payload-"+secret, headerDedupString, "dedup-"+secret)
	lease := post("POST", testQueue+"/recv?waitSeconds=0", "")
	fingerprint := fsm.FingerprintOf("dedup-" + secret)
	digest := hex.EncodeToString(fingerprint[:])
	if handle == "" || lease == "" {
		t.Fatal("no tokens")
	}
	post("POST", testQueue+"/send", "x", headerDedupHash, digest)
	post("POST", spoolURL+"/inspect", "", headerHandle, handle)
	post("POST", spoolURL+"/ack", "", headerLease, lease)
	post("POST", spoolURL+"/ack", "", headerLease, lease)
	post("POST", spoolURL+"/ack", "", headerLease, lease+secret)
	post("POST", spoolURL+"/ack", "", "Spooler-"+secret, secret)
	post("POST", spoolURL+"/ack?x="+secret, "")
	post("GET", spoolURL+"/queues?match="+secret, "")
	post("GET", spoolURL+"/queues/"+secret+"%20", "")
	post("GET", "/v1/"+secret, "")
	post("GET", "/"+secret+"?"+secret, "")
	post("FOO"+secret, testQueue, "")
	post("PUT", testQueue, `{"`+secret+`":1}`)
	do(s, "POST", testQueue+"/send", "", "Authorization", secret)
	do(s, "POST", testQueue+"/send", "", "User-Agent", secret, "Referer", secret, "X-Request-Id", secret)

	text := log.String() + do(s, "GET", "/metrics", "").Body.String()
	for _, word := range []string{secret, lease, handle, digest, strings.ToUpper(digest), "payload"} {
		if i := strings.Index(text, word); i >= 0 {
			t.Errorf("%q is in the log: %s", word, text[max(0, i-300):i+50])
		}
	}
}

func TestAccessLogLines(t *testing.T) {
	var log syncBuffer
	b := newLocalBroker()
	s := newTestServer(t, b, withLog(&log), func(c *Config) { c.AnyKey, c.Keys = false, parseTestKeys(t) })
	all := header{"Authorization", "Bearer all-key"}
	ids := []string{}
	call := func(method, target, body string, h ...string) {
		w := do(s, method, target, body, h...)
		ids = append(ids, w.Header().Get("X-Request-Id"))
	}
	call("PUT", testQueue, "{}", all...)
	call("POST", testQueue+"/send", "12345", all...)
	call("POST", testQueue+"/recv?waitSeconds=0", "", "Authorization", "Bearer recv-key")
	call("POST", testQueue+"/recv?waitSeconds=0", "", all...)
	call("POST", spoolURL+"/queues/nope/send", "123", all...)
	call("GET", testQueue, "", "Authorization", "Bearer old-key")
	call("GET", "/nope", "", all...)
	call("GET", "/healthz", "", "Authorization", "")
	want := []map[string]any{
		{"method": "PUT", "operation": "queue_create", "status": 201.0, "outcome": "ok", "bytesIn": 2.0, "spool": "default", "queue": "orders", "key": "everything"},
		{"method": "POST", "operation": "send", "status": 201.0, "outcome": "ok", "bytesIn": 5.0, "bytesOut": 0.0, "spool": "default", "queue": "orders", "key": "everything", "messageId": "1-1"},
		{"method": "POST", "operation": "receive", "status": 200.0, "outcome": "ok", "bytesIn": 0.0, "bytesOut": 5.0, "spool": "default", "queue": "orders", "key": "worker", "messageId": "1-1"},
		{"method": "POST", "operation": "receive", "status": 204.0, "outcome": "empty", "bytesIn": 0.0, "bytesOut": 0.0, "spool": "default", "queue": "orders", "key": "everything"},
		{"method": "POST", "operation": "send", "status": 404.0, "outcome": "queue_not_found", "kind": "queue_not_found", "bytesIn": 3.0, "spool": "default", "queue": "nope", "key": "everything"},
		{"method": "GET", "operation": "queue_get", "status": 403.0, "outcome": "forbidden", "bytesIn": 0.0, "key": "old"},
		{"method": "GET", "operation": "not_found", "status": 404.0, "outcome": "path_not_found", "bytesIn": 0.0},
		{"method": "GET", "operation": "health", "status": 200.0, "outcome": "ok", "bytesIn": 0.0},
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %s", len(lines), log.String())
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got["requestId"] != ids[i] || ids[i] == "" {
			t.Errorf("request id %v, want %s", got["requestId"], ids[i])
		}
		if _, ok := got["durationMs"].(float64); !ok {
			t.Errorf("no duration: %s", line)
		}
		for _, name := range []string{"time", "level", "msg", "requestId", "durationMs"} {
			delete(got, name)
		}
		if _, ok := want[i]["bytesOut"]; !ok {
			delete(got, "bytesOut")
		}
		if len(got) != len(want[i]) {
			t.Errorf("%v, want %v", got, want[i])
		}
		for name, value := range want[i] {
			if got[name] != value {
				t.Errorf("%s: %v, want %v", name, got[name], value)
			}
		}
	}
}

func TestAccessLogOff(t *testing.T) {
	var log syncBuffer
	s := newTestServer(t, newLocalBroker(), withLog(&log), func(c *Config) { c.AccessLog = false })
	do(s, "GET", testQueue, "")
	if log.String() != "" {
		t.Errorf("%s", log.String())
	}
}
