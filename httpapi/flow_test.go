package httpapi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

const spoolURL = "/v1/spools/default"

func TestSendFlow(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, `{"dedupWindowSeconds":60}`)

	send := func(query, body string, h ...string) (int, string, string) {
		t.Helper()
		w := do(s, "POST", testQueue+"/send"+query, body, h...)
		if w.Body.Len() != 0 {
			t.Fatalf("a body: %s", w.Body)
		}
		return w.Code, w.Header().Get(headerMessageID), w.Header().Get(headerHandle)
	}
	want := func(status int, id string) func(int, string, string) {
		return func(gotStatus int, gotID, handle string) {
			t.Helper()
			if gotStatus != status || gotID != id || handle != "" {
				t.Fatalf("%d %q %q, want %d %q", gotStatus, gotID, handle, status, id)
			}
		}
	}
	want(201, "1-1")(send("", "plain"))
	want(201, "1-2")(send("", "one", headerDedupString, "order-4711"))
	want(200, "1-2")(send("", "another body", headerDedupString, "order-4711"))
	// The hash of a string is the same key, and a duplicate gets no handle.
	want(200, "1-2")(send("?handle=true", "", headerDedupHash, fmt.Sprintf("%X", fsm.FingerprintOf("order-4711"))))
	want(201, "1-3")(send("", "", headerDedupString, "ORDER-4711"))
	b.advance(time.Minute - time.Millisecond)
	want(200, "1-2")(send("", "", headerDedupString, "order-4711"))
	b.advance(time.Millisecond)
	want(201, "1-4")(send("", "", headerDedupString, "order-4711"))

	status, id, handle := send("?handle=true", "cancel me", headerDelay, "60")
	if status != 201 || id != "1-5" || handle == "" {
		t.Fatalf("%d %s %q", status, id, handle)
	}
	w := do(s, "POST", spoolURL+"/inspect", "", headerHandle, handle)
	wantStatus(t, w, 200)
	if w.Body.String() != "cancel me" || w.Header().Get(headerMessageID) != "1-5" || w.Header().Get(headerState) != "delayed" ||
		w.Header().Get(headerRetries) != "0" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%v %s", w.Header(), w.Body)
	}
	wantStatus(t, do(s, "POST", spoolURL+"/discard", "", headerHandle, handle), 204)
	wantProblem(t, do(s, "POST", spoolURL+"/inspect", "", headerHandle, handle), 410, "stale_token")
}

func TestKeyedSendWithoutWindow(t *testing.T) {
	s := newTestServer(t, newLocalBroker())
	newQueue(t, s, "")
	wantProblem(t, do(s, "POST", testQueue+"/send", "", headerDedupString, "k"), 400, "dedup_disabled")
}

// received is what a receive brought.
type received struct{ id, lease, expires, retries, payload string }

func recv(t *testing.T, s *Server) received {
	t.Helper()
	w := do(s, "POST", testQueue+"/recv?waitSeconds=0", "")
	wantStatus(t, w, 200)
	if ct := w.Header().Get("Content-Type"); ct != "application/octet-stream" {
		t.Fatalf("content type %q", ct)
	}
	h := w.Header()
	return received{h.Get(headerMessageID), h.Get(headerLease), h.Get(headerLeaseExpiresAt), h.Get(headerRetries), w.Body.String()}
}

func TestLeaseFlow(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, `{"maxRetries":1}`)
	wantStatus(t, do(s, "POST", testQueue+"/recv?waitSeconds=0", ""), 204)
	payload := "\x00\xff bytes"
	wantStatus(t, do(s, "POST", testQueue+"/send", payload), 201)

	post := func(path string, status int, h ...string) string {
		t.Helper()
		w := do(s, "POST", spoolURL+path, "", h...)
		wantStatus(t, w, status)
		if status == 204 && w.Body.Len() != 0 {
			t.Fatalf("a body: %s", w.Body)
		}
		return w.Header().Get(headerLeaseExpiresAt)
	}
	m := recv(t, s)
	if m.id != "1-1" || m.payload != payload || m.retries != "0" || m.expires != "2026-01-02T03:04:35.678Z" {
		t.Fatalf("%+v", m)
	}
	b.advance(10 * time.Second)
	if got := post("/renew", 204, headerLease, m.lease); got != "2026-01-02T03:04:45.678Z" {
		t.Fatalf("renewed to %s", got)
	}
	if got := post("/release", 204, headerLease, m.lease, headerDelay, "5"); got != "" {
		t.Fatalf("a release answers an expiry: %s", got)
	}
	post("/ack", 410, headerLease, m.lease)
	wantStatus(t, do(s, "POST", testQueue+"/recv?waitSeconds=0", ""), 204)
	b.advance(5 * time.Second)
	m = recv(t, s)
	if m.retries != "0" {
		t.Fatalf("a release counted: %+v", m)
	}
	post("/nack", 204, headerLease, m.lease)
	m = recv(t, s)
	if m.retries != "1" {
		t.Fatalf("a nack did not count: %+v", m)
	}
	post("/fail", 204, headerLease, m.lease)

	list := fields(t, do(s, "GET", testQueue+"/messages?handle=true&state=failed", ""))
	handle := list["items"].([]any)[0].(map[string]any)["handle"].(string)
	post("/recover", 204, headerHandle, handle)
	post("/recover", 410, headerHandle, handle)
	m = recv(t, s)
	if m.retries != "0" {
		t.Fatalf("a recover kept the retries: %+v", m)
	}
	post("/discard", 204, headerLease, m.lease)
	post("/discard", 410, headerLease, m.lease)

	// A lease without an end has no header that says when.
	wantStatus(t, do(s, "PATCH", testQueue, `{"leaseTimeoutSeconds":0}`), 200)
	wantStatus(t, do(s, "POST", testQueue+"/send", ""), 201)
	m = recv(t, s)
	if m.expires != "" || post("/renew", 204, headerLease, m.lease) != "" {
		t.Fatalf("an endless lease ends: %+v", m)
	}
	post("/ack", 204, headerLease, m.lease)
}

func TestRecoverOfWhatHasNotFailed(t *testing.T) {
	s := newTestServer(t, newLocalBroker())
	newQueue(t, s, "")
	handle := do(s, "POST", testQueue+"/send?handle=true", "x").Header().Get(headerHandle)
	wantProblem(t, do(s, "POST", spoolURL+"/recover", "", headerHandle, handle), 409, "not_failed")
}

func TestAckAndSendFlow(t *testing.T) {
	s := newTestServer(t, newLocalBroker())
	newQueue(t, s, "")
	wantStatus(t, do(s, "PUT", spoolURL+"/queues/bills", `{"dedupWindowSeconds":60}`), 201)
	wantStatus(t, do(s, "POST", spoolURL+"/queues/bills/send", "old", headerDedupString, "taken"), 201)
	wantStatus(t, do(s, "POST", testQueue+"/send", "order"), 201)
	m := recv(t, s)

	post := func(h ...string) func(status int, kind string) errorJSON {
		w := do(s, "POST", spoolURL+"/ack-and-send?handle=true", "bill", append(h, headerLease, m.lease)...)
		return func(status int, kind string) errorJSON {
			t.Helper()
			if status == 201 {
				wantStatus(t, w, 201)
				if w.Header().Get(headerMessageID) != "2-2" || w.Header().Get(headerHandle) == "" || w.Body.Len() != 0 {
					t.Fatalf("%v", w.Header())
				}
				return errorJSON{}
			}
			return wantProblem(t, w, status, kind)
		}
	}
	post(headerQueue, "nope")(404, "queue_not_found")
	claimed := post(headerQueue, "bills", headerDedupString, "taken")(409, "dedup_claimed")
	if !reflect.DeepEqual(claimed.Details, map[string]any{"id": "2-1"}) {
		t.Errorf("details %v", claimed.Details)
	}
	post(headerQueue, "bills", headerDedupString, "fresh")(201, "")
	post(headerQueue, "bills", headerDedupString, "fresh")(410, "stale_token")
}

func TestQueueLife(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	w := do(s, "PUT", testQueue, `{"recvRateLimit":{"intervalMicros":1000000,"burst":2},"retentionSeconds":3600}`)
	wantStatus(t, w, 201)
	made := fields(t, w)
	uid, _ := made["uid"].(string)
	want := map[string]any{
		"name": "orders", "uid": uid, "createdAt": "2026-01-02T03:04:05.678Z", "state": "active",
		"settings": map[string]any{
			"leaseTimeoutSeconds": 30.0, "maxRetries": 5.0, "dedupWindowSeconds": 0.0, "retentionSeconds": 3600.0,
			"effectiveRetentionSeconds": 3600.0, "recvRateLimit": map[string]any{"intervalMicros": 1000000.0, "burst": 2.0},
		},
	}
	if uid == "" || !reflect.DeepEqual(made, want) {
		t.Fatalf("%v, want %v", made, want)
	}
	wantProblem(t, do(s, "PUT", testQueue, ""), 409, "queue_exists")
	w = do(s, "PATCH", testQueue, `{"recvRateLimit":{"intervalMicros":0,"burst":0},"maxRetries":0}`)
	wantStatus(t, w, 200)
	settings := want["settings"].(map[string]any)
	settings["recvRateLimit"], settings["maxRetries"] = nil, 0.0
	if got := fields(t, w); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	w = do(s, "GET", testQueue, "")
	wantStatus(t, w, 200)
	if got := fields(t, w); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	// HEAD is GET without the body.
	head := do(s, "HEAD", testQueue, "")
	if head.Code != 200 || head.Header().Get("Content-Length") != w.Header().Get("Content-Length") {
		t.Errorf("HEAD: %d %v", head.Code, head.Header())
	}

	wantProblem(t, do(s, "DELETE", testQueue+"?mode=force&uid=other", ""), 409, "queue_replaced")
	wantStatus(t, do(s, "POST", testQueue+"/send", ""), 201)
	wantStatus(t, do(s, "DELETE", testQueue+"?mode=drain&uid="+uid, ""), 202)
	if got := fields(t, do(s, "GET", testQueue, "")); got["state"] != "draining" {
		t.Errorf("%v", got)
	}
	wantProblem(t, do(s, "POST", testQueue+"/send", ""), 409, "queue_deleting")
	wantProblem(t, do(s, "PUT", testQueue, ""), 409, "queue_deleting")
	wantStatus(t, do(s, "DELETE", testQueue+"?mode=force", ""), 202)
	wantProblem(t, do(s, "GET", testQueue, ""), 404, "queue_not_found")
	wantProblem(t, do(s, "PATCH", testQueue, `{"maxRetries":1}`), 404, "queue_not_found")
	w = do(s, "PUT", testQueue, "")
	if got := fields(t, w); got["uid"] == uid {
		t.Errorf("a queue made again has the old uid")
	}
}

func TestQueuePages(t *testing.T) {
	s := newTestServer(t, newLocalBroker())
	empty := do(s, "GET", spoolURL+"/queues", "")
	if got := strings.TrimSpace(empty.Body.String()); got != `{"items":[]}` {
		t.Fatalf("no queues: %s", got)
	}
	for _, name := range []string{"b", "a", "d", "c", "x1"} {
		wantStatus(t, do(s, "PUT", spoolURL+"/queues/"+name, ""), 201)
	}
	page := func(path, query string) (names string, next any) {
		t.Helper()
		w := do(s, "GET", spoolURL+path+query, "")
		wantStatus(t, w, 200)
		got := fields(t, w)
		if path == "/stats" {
			if got["queueCount"] != 5.0 {
				t.Errorf("queueCount %v", got["queueCount"])
			}
			got = got["queues"].(map[string]any)
		}
		for _, item := range got["items"].([]any) {
			names += item.(map[string]any)["name"].(string) + " "
		}
		return strings.TrimSpace(names), got["next"]
	}
	tests := []struct {
		query, names string
		next         any
	}{
		{"", "a b c d x1", nil},
		{"?limit=5", "a b c d x1", nil}, // full and last
		{"?limit=2", "a b", "b"},
		{"?limit=2&after=b", "c d", "d"},
		{"?limit=2&after=d", "x1", nil},
		{"?after=bb", "c d x1", nil},
		{"?after=zzz", "", nil},
		{"?match=[a-b]", "a b", nil},
		{"?match=%5B0-9%5D", "x1", nil},
		{"?match=^$", "", nil},
	}
	for _, path := range []string{"/queues", "/stats"} {
		for _, test := range tests {
			if names, next := page(path, test.query); names != test.names || next != test.next {
				t.Errorf("%s%s: %q %v, want %q %v", path, test.query, names, next, test.names, test.next)
			}
		}
	}
	if names, next := page("/stats", "?queue=c&queue=a&queue=nope"); names != "a c" || next != nil {
		t.Errorf("%q %v", names, next)
	}
}

func TestStatsAndMessages(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	wantStatus(t, do(s, "PUT", spoolURL+"/queues/empty", ""), 201)
	for range 3 {
		wantStatus(t, do(s, "POST", testQueue+"/send", "12345"), 201)
	}
	wantStatus(t, do(s, "POST", testQueue+"/send", "", headerDelay, "60"), 201)
	wantStatus(t, do(s, "POST", spoolURL+"/ack", "", headerLease, recv(t, s).lease), 204)
	wantStatus(t, do(s, "POST", spoolURL+"/fail", "", headerLease, recv(t, s).lease), 204)
	recv(t, s)

	w := do(s, "GET", spoolURL+"/stats?queue=orders", "")
	wantStatus(t, w, 200)
	got := fields(t, w)
	want := map[string]any{"total": 3.0, "dataBytes": 10.0, "delayed": 1.0, "visible": 0.0, "pending": 1.0, "failed": 1.0, "unavailable": 0.0,
		"addedTotal": 4.0, "ackedTotal": 1.0, "nackedTotal": 0.0, "releasedTotal": 0.0, "failedTotal": 1.0, "discardedTotal": 0.0, "expiredTotal": 0.0}
	items := got["queues"].(map[string]any)["items"].([]any)
	if !reflect.DeepEqual(got["stats"], want) || got["queueCount"] != 2.0 || len(items) != 1 || !reflect.DeepEqual(items[0].(map[string]any)["stats"], want) {
		t.Fatalf("%v", got)
	}

	messages := func(query string) (items []any, next any) {
		t.Helper()
		w := do(s, "GET", testQueue+"/messages"+query, "")
		wantStatus(t, w, 200)
		got := fields(t, w)
		return got["items"].([]any), got["next"]
	}
	all, next := messages("")
	const created, expires = "2026-01-02T03:04:05.678Z", "2026-01-06T03:04:05.678Z"
	wantAll := []any{
		map[string]any{"id": "1-2", "state": "failed", "retries": 0.0, "createdAt": created, "expiresAt": expires},
		map[string]any{"id": "1-3", "state": "pending", "retries": 0.0, "createdAt": created, "leaseExpiresAt": "2026-01-02T03:04:35.678Z", "expiresAt": expires},
		map[string]any{"id": "1-4", "state": "delayed", "retries": 0.0, "createdAt": created, "visibleAt": "2026-01-02T03:05:05.678Z", "expiresAt": expires},
	}
	if !reflect.DeepEqual(all, wantAll) || next != nil {
		t.Fatalf("%v %v", all, next)
	}
	for query, want := range map[string]string{"?limit=1": "1-2 next", "?limit=1&after=1-2": "1-3 next", "?limit=1&after=1-3": "1-4", "?after=1-4": "",
		"?state=delayed": "1-4", "?state=visible": "", "?state=unavailable": "", "?after=1-1": "1-2 1-3 1-4"} {
		items, next := messages(query)
		var ids []string
		for _, item := range items {
			ids = append(ids, item.(map[string]any)["id"].(string))
		}
		if next != nil {
			ids = append(ids, "next")
			if next != ids[0] {
				t.Errorf("%s: next is %v", query, next)
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	b.advance(time.Minute)
	if items, _ := messages("?state=visible"); len(items) != 2 {
		t.Errorf("%v", items)
	}
	wantProblem(t, do(s, "GET", testQueue+"/messages?after=2-1", ""), 400, "")
	wantProblem(t, do(s, "GET", spoolURL+"/queues/nope/messages", ""), 404, "queue_not_found")
	wantProblem(t, do(s, "GET", "/v1/spools/nope/stats", ""), 404, "spool_not_found")
}

func TestCapsOfASpool(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	b.apply(fsm.Command{Op: fsm.OpSetCaps, Spool: "default", Caps: fsm.Caps{MaxMessages: 1, MaxQueues: 1, MaxRetentionSeconds: 3600}})
	wantProblem(t, do(s, "PUT", testQueue, `{"retentionSeconds":3601}`), 403, "retention_limit")
	newQueue(t, s, `{"dedupWindowSeconds":60,"retentionSeconds":3600}`)
	wantProblem(t, do(s, "PUT", spoolURL+"/queues/more", `{"retentionSeconds":3600}`), 403, "queue_limit")
	wantStatus(t, do(s, "POST", testQueue+"/send", "", headerDedupString, "k"), 201)
	got := wantProblem(t, do(s, "POST", testQueue+"/send", ""), 507, "spool_full")
	if !reflect.DeepEqual(got.Details, map[string]any{"limit": "messages", "max": 1.0}) {
		t.Errorf("%v", got.Details)
	}
	wantStatus(t, do(s, "POST", testQueue+"/send", "", headerDedupString, "k"), 200)
	b.apply(fsm.Command{Op: fsm.OpSetCaps, Spool: "default", Suspended: true})
	wantProblem(t, do(s, "GET", testQueue, ""), 402, "")
}
