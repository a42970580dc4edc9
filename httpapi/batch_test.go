package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func statuses(items []gotItem) (all []int) {
	for _, i := range items {
		all = append(all, i.Status)
	}
	return all
}

func wantStatuses(t *testing.T, items []gotItem, want ...int) {
	t.Helper()
	if got := statuses(items); !reflect.DeepEqual(got, want) {
		t.Fatalf("statuses %v, want %v: %+v", got, want, items)
	}
}

// TestMixedSendBatch sends a duplicate, new messages and bad ones in one call,
// one key twice.
func TestMixedSendBatch(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c client) {
		s := newTestServer(t, newLocalBroker(), func(c *Config) { c.MaxPayloadBytes = 100 })
		newQueue(t, s, `{"dedupWindowSeconds":60}`)
		wantStatus(t, do(s, "POST", testQueue+"/send", "old", headerDedupString, "old"), 201)
		items := c.send(t, s, "?handle=true",
			sentItem{payload: "again", key: "old"},
			sentItem{payload: "new", key: "new"},
			sentItem{payload: strings.Repeat("x", 101)},
			sentItem{payload: "by hash", hash: "11507a0e2f5e69d5dfa40a62a1bd7b6e"}, // of "new"
			sentItem{payload: "late", delay: fsm.MaxDelaySeconds + 1},
			sentItem{payload: "odd key", key: "\n"},
			sentItem{payload: "two keys", key: "a", hash: "00112233445566778899aabbccddeeff"},
			sentItem{payload: "\x00\xff", delay: 5},
			sentItem{payload: ""},
		)
		wantStatuses(t, items, 200, 201, 413, 200, 400, 400, 400, 201, 201)
		for i, want := range []string{"1-1", "1-2", "", "1-2", "", "", "", "1-3", "1-4"} {
			if items[i].ID != want {
				t.Errorf("item %d: id %q, want %q", i, items[i].ID, want)
			}
			if fresh := items[i].Status == 201; fresh != (items[i].Handle != "") {
				t.Errorf("item %d: handle %q", i, items[i].Handle)
			}
			if failed := items[i].Status >= 400; failed != (items[i].Message != "") {
				t.Errorf("item %d: message %q", i, items[i].Message)
			}
		}
		if items[2].Kind != "payload_too_large" {
			t.Errorf("kind %q", items[2].Kind)
		}
		inspected := do(s, "POST", spoolURL+"/inspect", "", headerHandle, items[7].Handle)
		if inspected.Code != 200 || inspected.Body.String() != "\x00\xff" || inspected.Header().Get(headerState) != "delayed" {
			t.Errorf("%d %q", inspected.Code, inspected.Body)
		}
	})
}

func TestReceiveBatch(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c client) {
		b := newLocalBroker()
		s := newTestServer(t, b)
		newQueue(t, s, `{"recvRateLimit":{"intervalMicros":1000000,"burst":3}}`)
		w := do(s, "POST", batchReceiveURL+"?max=10&waitSeconds=0", "", c.accept...)
		wantStatus(t, w, 204)
		c.send(t, s, "", sentItem{payload: `"text" \ ` + "\n\x01\u2028é"}, sentItem{payload: "\xff\x00 bytes"}, sentItem{}, sentItem{payload: "4"})
		items := c.receive(t, s, "?max=2")
		if len(items) != 2 || items[0].Payload != `"text" \ `+"\n\x01\u2028é" || items[1].Payload != "\xff\x00 bytes" {
			t.Fatalf("%+v", items)
		}
		if items[0].ID != "1-1" || items[0].Retries != 0 || items[0].LeaseExpiresAt != "2026-01-02T03:04:35.678Z" {
			t.Errorf("%+v", items[0])
		}
		if items = c.receive(t, s, "?max=10"); len(items) != 1 || items[0].ID != "1-3" {
			t.Fatalf("with one token left: %+v", items)
		}
		wantProblem(t, do(s, "POST", batchReceiveURL+"?max=10", "", c.accept...), 429, "rate_limited")
		wantProblem(t, do(s, "POST", strings.Replace(batchReceiveURL, "orders", "none", 1)+"?max=1", "", c.accept...), 404, "queue_not_found")
		for _, query := range []string{"", "?max=0", "?max=1001", "?max=x", "?max=1&max=1", "?max=1&waitSeconds=61", "?max=1&handle=true"} {
			wantProblem(t, do(s, "POST", batchReceiveURL+query, "", c.accept...), 400, "")
		}
	})
}

func TestSettleBatch(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c client) {
		b := newLocalBroker()
		s := newTestServer(t, b)
		newQueue(t, s, `{"maxRetries":0}`)
		c.send(t, s, "", make([]sentItem, 7)...)
		got := c.receive(t, s, "?max=7")
		foreign := sealed(fsm.Lease) // of another cluster
		ops := []settledItem{
			{lease: got[0].Lease, op: "ack"},
			{lease: got[0].Lease, op: "ack"}, // settled by then
			{lease: got[1].Lease, op: "nack"},
			{lease: got[2].Lease, op: "release", delay: 100},
			{lease: got[3].Lease, op: "fail"},
			{lease: got[4].Lease, op: "discard"},
			{lease: got[5].Lease, op: "renew"},
			{lease: got[5].Lease, op: "ack"},
			{lease: foreign, op: "ack"},
			{lease: "", op: "ack"},
			{lease: got[6].Lease, op: "recover"},
			{lease: got[6].Lease, op: "release", delay: fsm.MaxDelaySeconds + 1},
			{lease: got[6].Lease, op: "ack"},
		}
		b.advance(1e9)
		items := c.settleAll(t, s, ops...)
		wantStatuses(t, items, 204, 410, 204, 204, 204, 204, 204, 204, 400, 400, 400, 400, 204)
		for i, want := range map[int]string{1: "stale_token", 8: "invalid_token", 9: "invalid_token", 10: "", 11: ""} {
			if items[i].Kind != want || items[i].Message == "" {
				t.Errorf("item %d: %+v", i, items[i])
			}
		}
		for i := range items {
			if renewed := i == 6; renewed != (items[i].LeaseExpiresAt == "2026-01-02T03:04:36.678Z") {
				t.Errorf("item %d expires at %q", i, items[i].LeaseExpiresAt)
			}
		}
		stats := fields(t, do(s, "GET", spoolURL+"/stats", ""))["stats"].(map[string]any)
		for name, want := range map[string]float64{"total": 3, "delayed": 1, "failed": 2, "ackedTotal": 3, "nackedTotal": 1, "releasedTotal": 1, "failedTotal": 2, "discardedTotal": 1} {
			if stats[name] != want {
				t.Errorf("%s is %v, want %v", name, stats[name], want)
			}
		}
	})
}

// outcomesBroker gives each command of a call an outcome of its own, and counts
// calls.
type outcomesBroker struct {
	fakeBroker
	outs  []fsm.Outcome
	calls int
}

func (b *outcomesBroker) DoAll(context.Context, []fsm.Command) []fsm.Outcome {
	b.calls++
	return b.outs
}

// TestBatchOutcomes gives every item what the table of refusals says, in one
// call to the broker.
func TestBatchOutcomes(t *testing.T) {
	outs := []fsm.Outcome{
		{Result: fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 2}}},
		{Result: fsm.Result{Code: fsm.CodeDuplicate, ID: fsm.MessageID{Queue: 1, Message: 1}}},
		{Result: fsm.Result{Code: fsm.CodeSpoolFull, Cap: fsm.CapMessages, Max: 7}},
		{Result: fsm.Result{Code: fsm.CodeDedupInFlight}},
		{Result: fsm.Result{Code: fsm.CodeQueueNotFound}},
		{Err: fmt.Errorf("no leader at 10.0.0.1: %w", fsm.ErrNotApplied)},
		{Err: fsm.ErrClosed},
		{Err: fmt.Errorf("connection to 10.0.0.1: %w", fsm.ErrUnknown)},
		{Err: errors.New("anything else")},
	}
	want := []gotItem{
		{Status: 201, ID: "1-2"},
		{Status: 200, ID: "1-1"},
		{Status: 507, Kind: "spool_full", Details: map[string]any{"limit": "messages", "max": 7.0}},
		{Status: 409, Kind: "dedup_in_flight"},
		{Status: 404, Kind: "queue_not_found", Details: map[string]any{"queue": "orders"}},
		{Status: 503, RetryAfterSeconds: 1},
		{Status: 503, RetryAfterSeconds: 1},
		{Status: 500, Kind: "operation_unconfirmed"},
		{Status: 500, Kind: "operation_unconfirmed"},
	}
	eachEncoding(t, func(t *testing.T, c client) {
		b := &outcomesBroker{outs: outs}
		got := c.send(t, newTestServer(t, b), "", make([]sentItem, len(outs))...)
		for i := range got {
			if (got[i].Message != "") != (got[i].Status >= 400) || strings.Contains(got[i].Message, "10.0.0.1") {
				t.Errorf("item %d: message %q", i, got[i].Message)
			}
			got[i].Message = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if proposals, _ := b.asked(); b.calls != 1 || proposals != 0 {
			t.Errorf("%d calls and %d single commands", b.calls, proposals)
		}
	})
}

// TestBatchOfBadItems proposes nothing.
func TestBatchOfBadItems(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c client) {
		b := &outcomesBroker{}
		s := newTestServer(t, b)
		wantStatuses(t, c.send(t, s, "", sentItem{delay: 1e6}, sentItem{key: "\x00"}), 400, 400)
		wantStatuses(t, c.settleAll(t, s, settledItem{op: "ack"}, settledItem{op: "nothing"}), 400, 400)
		if b.calls != 0 {
			t.Errorf("%d calls", b.calls)
		}
	})
}

// TestBatchAsAWhole refuses what cannot be taken apart.
func TestBatchAsAWhole(t *testing.T) {
	many := make([]sentItem, maxBatchItems+1)
	for _, call := range []struct {
		what, target string
		h            header
		body         string
		status       int
		kind         string
	}{
		{"nothing", batchSendURL, nil, "", 400, ""},
		{"nothing, binary", batchSendURL, clients[1].h, "", 400, ""},
		{"no items", batchSendURL, nil, `{"items":[]}`, 400, ""},
		{"no items, binary", batchSendURL, clients[1].h, "\x01\x01\x00", 400, ""},
		{"too many", batchSendURL, nil, jsonSends(many), 400, ""},
		{"too many, binary", batchSendURL, clients[1].h, binarySends(many), 400, ""},
		{"settles instead of sends", batchSendURL, clients[1].h, binarySettles([]settledItem{{op: "ack"}}), 400, ""},
		{"sends instead of settles", batchSettleURL, clients[1].h, binarySends(many[:1]), 400, ""},
		{"another version", batchSendURL, clients[1].h, "\x02\x01\x01\x01\x00", 400, ""},
		{"more items said than there", batchSendURL, clients[1].h, "\x01\x01\x02\x01\x00", 400, ""},
		{"a long length", batchSendURL, clients[1].h, "\x01\x01\x01\x81\x00\x00", 400, ""},
		{"more after the last", batchSendURL, clients[1].h, "\x01\x01\x01\x01\x00x", 400, ""},
		{"binary said to be JSON", batchSendURL, nil, binarySends(many[:1]), 400, ""},
		{"JSON said to be binary", batchSendURL, clients[1].h, jsonSends(many[:1]), 400, ""},
		{"no object", batchSendURL, nil, `[]`, 400, ""},
		{"no array", batchSendURL, nil, `{"items":{}}`, 400, ""},
		{"another member", batchSendURL, nil, `{"items":[{"payload":"x"}],"queue":"q"}`, 400, ""},
		{"items twice", batchSendURL, nil, `{"items":[{"payload":"x"}],"items":[]}`, 400, ""},
		{"not closed", batchSendURL, nil, `{"items":[{"payload":"x"}]`, 400, ""},
		{"trailing data", batchSendURL, nil, `{"items":[{"payload":"x"}]}{}`, 400, ""},
		{"too long", batchSendURL, nil, strings.Repeat(" ", maxBatchBytes+1), 413, "payload_too_large"},
		{"a header of a single send", batchSendURL, header{headerDedupString, "k"}, jsonSends(many[:1]), 400, "unknown_header"},
		{"a header of a single ack", batchSettleURL, header{headerLease, "k"}, jsonSettles([]settledItem{{op: "ack"}}), 400, "unknown_header"},
	} {
		b := &outcomesBroker{}
		w := do(newTestServer(t, b), "POST", call.target, call.body, call.h...)
		if w.Code != call.status {
			t.Errorf("%s: %d, want %d: %s", call.what, w.Code, call.status, w.Body)
			continue
		}
		wantProblem(t, w, call.status, call.kind)
		if b.calls != 0 {
			t.Errorf("%s: the broker was asked", call.what)
		}
	}
}

// TestJSONItems has mistakes that only JSON can have.
func TestJSONItems(t *testing.T) {
	for item, status := range map[string]int{
		`{"payload":"x"}`: 201,
		` { "payload" : "\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t" , "delaySeconds" : 5 } `: 201,
		`{"payload":""}`:                    201,
		`{"pay\u006coad":"x"}`:              201,
		`{"payloadBase64":"AP8="}`:          201,
		`{"payloadBase64":""}`:              201,
		`{"payload":"x","dedupString":"k"}`: 201,
		`{"payload":"x","dedupHash":"00112233445566778899AABBCCDDEEFF"}`: 201,
		`{}`:                                     400,
		`null`:                                   400,
		`"payload"`:                              400,
		`5`:                                      400,
		`[{"payload":"x"}]`:                      400,
		`{"payload":null}`:                       400,
		`{"payload":{"payload":["x"]}}`:          400,
		`{"Payload":"x"}`:                        400,
		`{"payload":"x","payload":"x"}`:          400,
		`{"payload":"x","payloadBase64":"AP8="}`: 400,
		`{"payload":"x","queue":"q"}`:            400,
		`{"payload":"\ud83d"}`:                   400,
		`{"payload":"\ude00\ud83d"}`:             400,
		`{"payload":"\ud83d\u0041"}`:             400,
		"{\"payload\":\"\xff\"}":                 400,
		`{"payloadBase64":"AP8"}`:                400,
		`{"payloadBase64":"AP9="}`:               400, // bits that are not there
		`{"payloadBase64":"AP\n8="}`:             400,
		`{"payloadBase64":"A-8="}`:               400,
		`{"payload":"x","delaySeconds":"5"}`:     400,
		`{"payload":"x","delaySeconds":5.0}`:     400,
		`{"payload":"x","delaySeconds":-1}`:      400,
		`{"payload":"x","delaySeconds":604801}`:  400,
		`{"payload":"x","dedupString":""}`:       400,
		`{"payload":"x","dedupString":5}`:        400,
		`{"payload":"x","dedupHash":"0011"}`:     400,
		`{"payload":"x","dedupString":"a","dedupHash":"00112233445566778899AABBCCDDEEFF"}`: 400,
	} {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", batchSendURL, `{"items":[`+item+`,{"payload":"beside"}]}`)
		wantStatus(t, w, 200)
		wantStatuses(t, readJSONItems(t, w), status, 201)
		if len(b.commands) != map[int]int{201: 2, 400: 1}[status] || b.commands[len(b.commands)-1].Payload != "beside" {
			t.Errorf("%s: proposed %d commands", item, len(b.commands))
		}
		if strings.Contains(item, "ud83d") && status == 201 && b.commands[0].Payload != "é😀\"\\/\b\f\n\r\t" {
			t.Errorf("%s: payload %q", item, b.commands[0].Payload)
		}
	}
	for item, status := range map[string]int{
		`{"lease":"` + sealed(fsm.Lease) + `","op":"ack"}`:                      204,
		`{"op":"release","delaySeconds":0,"lease":"` + sealed(fsm.Lease) + `"}`: 204,
		`{"lease":"` + sealed(fsm.Handle) + `","op":"discard"}`:                 400,
		`{"lease":"` + sealed(fsm.Lease) + `","op":"ack","delaySeconds":0}`:     400,
		`{"lease":"` + sealed(fsm.Lease) + `","op":"ACK"}`:                      400,
		`{"lease":"` + sealed(fsm.Lease) + `"}`:                                 400,
		`{"lease":5,"op":"ack"}`:                                                400,
		`{"op":"ack"}`:                                                          400,
		`{"op":""}`:                                                             400,
	} {
		w := do(newTestServer(t, &fakeBroker{}), "POST", batchSettleURL, `{"items":[`+item+`]}`)
		wantStatus(t, w, 200)
		wantStatuses(t, readJSONItems(t, w), status)
	}
}

// TestBinaryItems has mistakes that only the binary encoding can have.
func TestBinaryItems(t *testing.T) {
	for item, status := range map[string]int{
		"\x00":                        201,
		"\x00payload":                 201,
		"\x01\x05payload":             201,
		"\x02\x01kpayload":            201,
		"\x030\x01kpayload":           201,
		"\x040123456789abcdefpayload": 201,
		"":                            400,
		"\x08payload":                 400,
		"\x01":                        400,
		"\x01\x85\x00":                400, // the number is longer than it has to be
		"\x01\xff\xff\xff":            400,
		"\x02":                        400,
		"\x02\x00payload":             400,
		"\x02\x09payload":             400,
		"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": 400,
		"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02": 400,
		"\x040123456789abcde":                          400,
		"\x06\x01k0123456789abcdef":                    400,
	} {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", batchSendURL, string(text(text([]byte{1, 1, 2}, item), "\x00beside")), clients[1].h...)
		wantStatus(t, w, 200)
		if got := statuses(readBinaryItems(t, w)); got[0] != status || got[1] != 201 || b.commands[len(b.commands)-1].Payload != "beside" {
			t.Errorf("%q: %v", item, got)
		}
	}
	for item, status := range map[string]int{
		"\x01" + sealed(fsm.Lease):     204,
		"\x03\x05" + sealed(fsm.Lease): 204,
		"\x03" + sealed(fsm.Lease):     400, // its first letter is taken for the delay
		"\x00" + sealed(fsm.Lease):     400,
		"\x07" + sealed(fsm.Lease):     400,
		"\x03":                         400,
		"\x01":                         400,
		"":                             400,
	} {
		w := do(newTestServer(t, &fakeBroker{}), "POST", batchSettleURL, string(text([]byte{1, 2, 1}, item)), clients[1].h...)
		wantStatus(t, w, 200)
		if got := statuses(readBinaryItems(t, w)); got[0] != status {
			t.Errorf("%q: %v", item, got)
		}
	}
}

func TestBatchWithoutTheSecret(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c client) {
		b := &fakeBroker{noSecret: true}
		s := newTestServer(t, b)
		wantProblem(t, do(s, "POST", batchSendURL+"?handle=true", c.sends(make([]sentItem, 1)), c.h...), 503, "")
		wantProblem(t, do(s, "POST", batchSettleURL, c.settle([]settledItem{{op: "ack"}}), c.h...), 503, "")
		wantProblem(t, do(s, "POST", batchReceiveURL+"?max=1", "", c.accept...), 503, "")
		if _, asked := b.asked(); asked != 0 {
			t.Error("the broker was asked")
		}
		wantStatuses(t, c.send(t, s, "", sentItem{}), 201)
	})
}

// TestBatchThatNobodyTakes gives all leases back where the answer cannot leave,
// or the client has gone.
func TestBatchThatNobodyTakes(t *testing.T) {
	granted := fsm.Result{Deliveries: []fsm.Delivery{
		{ID: fsm.MessageID{Queue: 4, Message: 5}, Moves: 6},
		{ID: fsm.MessageID{Queue: 4, Message: 7}, Moves: 8, Payload: "lost"},
	}}
	for what, serve := range map[string]func(*Server){
		"write fails": func(s *Server) {
			s.ServeHTTP(&brokenWriter{ResponseRecorder: *httptest.NewRecorder(), failWrite: true}, newRequest("POST", batchReceiveURL+"?max=9", "", nil))
		},
		"flush fails": func(s *Server) {
			s.ServeHTTP(&brokenWriter{ResponseRecorder: *httptest.NewRecorder()}, newRequest("POST", batchReceiveURL+"?max=9", "", nil))
		},
		"client gone": func(s *Server) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.ServeHTTP(httptest.NewRecorder(), newRequest("POST", batchReceiveURL+"?max=9", "", nil).WithContext(ctx))
		},
	} {
		b := &fakeBroker{onWait: func(context.Context) (fsm.Result, error) { return granted, nil }}
		serve(newTestServer(t, b))
		want := []fsm.Command{
			{Op: fsm.OpRelease, Spool: "default", Token: fsm.Token{Sort: fsm.Lease, Queue: 4, Message: 5, Moves: 6}},
			{Op: fsm.OpRelease, Spool: "default", Token: fsm.Token{Sort: fsm.Lease, Queue: 4, Message: 7, Moves: 8}},
		}
		if !reflect.DeepEqual(b.commands, want) {
			t.Errorf("%s: gave back %+v", what, b.commands)
		}
	}
}
