package httpapi

import (
	"bytes"
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
		path := strings.NewReplacer(":spool", spool, ":queue", queue).Replace(op.path)
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
