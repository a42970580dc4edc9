package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"maxRetries":5}`, `{"recvRateLimit":null}`, `{"recvRateLimit":{"intervalMicros":1,"burst":2}}`,
		`{"maxRetries":5,"maxRetries":5}`, `[[[[`, `{"retentionSeconds":1e9}`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		patch, p := parseSettings(body)
		if p != nil {
			if p.status != 400 || patch != (fsm.Patch{}) {
				t.Fatalf("%d, %+v", p.status, patch)
			}
			return
		}
		if !patch.Valid() {
			t.Fatalf("%q gives %+v, which the machine refuses", body, patch)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add(testKeys)
	f.Add("k scopes=,\n")
	f.Add("k name==\r\n#\n\x00")
	f.Fuzz(func(t *testing.T, file string) {
		keys, err := ParseKeys(strings.NewReader(file))
		if (keys == nil) == (err == nil) {
			t.Fatalf("%v, %v", keys, err)
		}
		if keys == nil {
			return
		}
		for _, k := range keys.byDigest {
			if k.scopes == 0 || k.scopes&^AllScopes != 0 || len(k.label) > maxLabelBytes {
				t.Fatalf("%+v", k)
			}
		}
	})
}

// FuzzHeaders sends a send with odd headers.
func FuzzHeaders(f *testing.F) {
	f.Add("Spooler-Dedup-String", "k", "Spooler-Delay-Seconds", "5")
	f.Add("Spooler-Dedup-Hash", "00112233445566778899aabbccddeeff", "spooler-foo", "")
	f.Add("Spooler-Handle", "AAAA", "Authorization", "Bearer x")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		b := &fakeBroker{result: fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 1}}}
		w := do(newTestServer(t, b), "POST", testQueue+"/send", "x", name1, value1, name2, value2)
		switch w.Code {
		case 201:
			c := b.proposed()
			if c.DelaySeconds > fsm.MaxDelaySeconds || c.Payload != "x" {
				t.Fatalf("%+v", c)
			}
		case 400, 401:
			if proposals, _ := b.asked(); proposals != 0 {
				t.Fatal("proposed and refused")
			}
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

func FuzzTokens(f *testing.F) {
	f.Add(sealed(fsm.Lease))
	f.Add("")
	f.Add("\xff==")
	f.Fuzz(func(t *testing.T, text string) {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", spoolURL+"/ack", "", headerLease, text)
		if genuine := text == sealed(fsm.Lease); (w.Code == 204) != genuine || (w.Code == 400) == genuine {
			t.Fatalf("%q: %d", text, w.Code)
		}
	})
}

// FuzzBatches gives both encodings anything. What they take is within its bounds,
// and in JSON it is what the standard library reads.
func FuzzBatches(f *testing.F) {
	items := []sentItem{{payload: "x", key: "k"}, {payload: "\xff", hash: "00112233445566778899aabbccddeeff", delay: 300}, {delay: 1e9}}
	settles := []settledItem{{lease: "AAAA", op: "ack"}, {lease: "", op: "release", delay: 300}, {op: "none"}}
	for _, body := range []string{jsonSends(items), binarySends(items), jsonSettles(settles), binarySettles(settles),
		`{"items":[{"payload":"\ud83d\ude00"},{"payload":[{"]":"}"}]},5,null]}`, "\x01\x01\xe8\x07"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, e := range []batchEncoding{jsonBatch{}, binaryBatch{}} {
			sends, p := e.decodeSends(body, 100)
			settles, p2 := e.decodeSettles(body)
			if p == nil && checkItemCount(uint64(len(sends))) != nil || p2 == nil && checkItemCount(uint64(len(settles))) != nil {
				t.Fatalf("%T: %d sends, %d settles", e, len(sends), len(settles))
			}
			for _, i := range sends {
				if i.fault == nil && (i.delaySeconds > fsm.MaxDelaySeconds || len(i.payload) > 100 || !i.keyed && i.key != (fsm.Fingerprint{})) {
					t.Fatalf("%T: %+v", e, i)
				}
			}
			for _, i := range settles {
				if i.fault == nil && (i.op == 0 || i.delaySeconds > fsm.MaxDelaySeconds || i.delaySeconds > 0 && i.op != fsm.OpRelease) {
					t.Fatalf("%T: %+v", e, i)
				}
			}
		}
		sends, p := jsonBatch{}.decodeSends(body, 100)
		if p != nil {
			return
		}
		var doc struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Items) != len(sends) {
			t.Fatalf("%d items, the standard library reads %d, %v", len(sends), len(doc.Items), err)
		}
		for i, raw := range doc.Items {
			var item struct{ Payload string }
			if sends[i].fault == nil && json.Unmarshal(raw, &item) == nil && item.Payload != "" && item.Payload != sends[i].payload {
				t.Fatalf("payload %q, the standard library reads %q", sends[i].payload, item.Payload)
			}
		}
	})
}

// FuzzJSONText compares our reading of JSON strings with the standard library's,
// which replaces what is no text.
func FuzzJSONText(f *testing.F) {
	for _, value := range []string{`""`, `"\u0041\n\/"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `"\ufffd"`, `5`} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var want string
		if !json.Valid([]byte(value)) || json.Unmarshal([]byte(value), &want) != nil || strings.TrimSpace(value) != value {
			return
		}
		got, ok := jsonText(value)
		if ok && got != want || !ok && value != "null" && !strings.Contains(want, "\ufffd") {
			t.Fatalf("%q: %q, %v; want %q", value, got, ok, want)
		}
		if back, ok2 := jsonText(string(appendJSONText(nil, got))); ok && (!ok2 || back != got) {
			t.Fatalf("%q is written as %q", got, appendJSONText(nil, got))
		}
	})
}

// FuzzCalls sends anything anywhere. Over a broker that always works there is
// no 5xx.
func FuzzCalls(f *testing.F) {
	for i := range operations {
		f.Add(byte(i), "default", "orders", "", "Spooler-Foo", "1", []byte("body"), false)
		f.Add(byte(i), "default", "orders", "limit=1&match=o&queue=orders&mode=force&handle=true&state=failed", headerLease, sealed(fsm.Lease), []byte{}, false)
		f.Add(byte(i), "a/b", "\x00", "%", "spooler-", "\xff", []byte("{"), true)
	}
	f.Fuzz(func(t *testing.T, route byte, spool, queue, query, name, value string, body []byte, chunked bool) {
		b := newLocalBroker()
		b.noWait = true
		s := newTestServer(t, b)
		newQueue(t, s, `{"dedupWindowSeconds":60}`)
		wantStatus(t, do(s, "POST", testQueue+"/send", "x"), 201)
		op := &operations[int(route)%len(operations)]
		path := strings.NewReplacer(":spool", spool, ":queue", queue, ":node", queue).Replace(op.path)
		r := &http.Request{
			Method: op.method, URL: &url.URL{Path: path, RawQuery: query}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Authorization": {"Bearer k"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Host: "x",
		}
		r.Header.Add(name, value)
		if chunked {
			r.ContentLength = -1
		}
		w := serve(s, r.WithContext(t.Context()))
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%s %q?%q %q: %q: %d %s", op.method, path, query, name, value, w.Code, w.Body)
		}
		// The server is as it should be.
		if queue != "orders" {
			wantStatus(t, do(s, "GET", testQueue, ""), 200)
		}
	})
}
