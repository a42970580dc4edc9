package bench

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counted is what a reader of answers counted.
func counted(read func(failed func(int, string)) int) (stored int, failures map[string]int) {
	failures = map[string]int{}
	stored = read(func(status int, kind string) { failures[statusKind(status, kind)]++ })
	return stored, failures
}

func TestCountAnswers(t *testing.T) {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	item := func(b ...byte) string { return string(b) }
	full := append([]byte{0xfb, 3, 8, 0}, text(text(nil, "spool_full"), "Full.")...)
	answers := []byte{1, 3, 4}
	for _, i := range []string{item(0xc9, 1, 1, 1, 5), item(0xc8, 1, 1, 1, 5), string(full), item(0xf7, 3, 8, 1, 0, 0)} {
		answers = text(answers, i)
	}
	stored, failures := counted(func(failed func(int, string)) int { return countBinaryAnswers(answers, failed) })
	want := map[string]int{"200": 1, "507 spool_full": 1, "503": 1}
	if stored != 1 || !reflect.DeepEqual(failures, want) {
		t.Errorf("%d stored, %v", stored, failures)
	}
	for end := range answers[:len(answers)-1] {
		_, failures := counted(func(failed func(int, string)) int { return countBinaryAnswers(answers[:end], failed) })
		if failures["200 unreadable"] == 0 {
			t.Errorf("%d bytes: %v", end, failures)
		}
	}

	in := `{"items":[{"status":201,"id":"1-1"},{"status":200,"id":"1-1"},{"status":507,"kind":"spool_full","message":"Full of {\"status\":201,."},{"status":503,"message":"."}]}`
	stored, failures = counted(func(failed func(int, string)) int { return countJSONAnswers([]byte(in), 4, failed) })
	if stored != 1 || !reflect.DeepEqual(failures, want) {
		t.Errorf("%d stored, %v", stored, failures)
	}
	if stored, failures = counted(func(failed func(int, string)) int { return countJSONAnswers([]byte("{"), 4, failed) }); stored != 0 || failures["200 unreadable"] != 1 {
		t.Errorf("%d stored, %v", stored, failures)
	}
}

// TestBatchBodies are checked byte by byte against the server's own reading by
// the test of the binary.
func TestBatchBodies(t *testing.T) {
	r := &run{config: &Config{Batch: 3, SizeBytes: 5, Keyed: true, Queues: []string{"q"}}, nodes: []node{{}}, seed: 36, recorder: newRecorder(1, time.Time{})}
	c := r.newClient(0)
	var doc struct {
		Items []struct{ Payload, DedupString string }
	}
	if err := json.Unmarshal(c.appendJSONBatch(nil), &doc); err != nil || len(doc.Items) != 3 || doc.Items[2].DedupString != "10-0-3" || doc.Items[0].Payload != string(c.payload) {
		t.Errorf("%+v, %v", doc, err)
	}
	want := "\x01\x01\x03"
	for _, key := range []string{"10-0-4", "10-0-5", "10-0-6"} {
		want += "\x0d\x02\x06" + key + string(c.payload)
	}
	if got := string(c.appendBinaryBatch(nil)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	r.config.Keyed = false
	want = "\x01\x01\x03" + strings.Repeat("\x06\x00"+string(c.payload), 3)
	if got := string(c.appendBinaryBatch(nil)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSendBatch(t *testing.T) {
	for _, inJSON := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			good, mixed := "\x01\x03\x03\x03\xc9\x01\x00\x03\xc9\x01\x00\x03\xc9\x01\x00", "\x01\x03\x03\x03\xc9\x01\x00\x03\xc9\x01\x00\x06\x99\x03\x08\x00\x01k"
			contentType := typeBatch
			if inJSON {
				contentType = "application/json"
				good, mixed = `{"items":[{"status":201,"id":"1-1"},{"status":201,"id":"1-2"},{"status":201,"id":"1-3"}]}`, `{"items":[{"status":201,"id":"1-1"},{"status":201,"id":"1-2"},{"status":409,"kind":"k"}]}`
			}
			f := &fakeNode{delay: func(int) time.Duration { return time.Millisecond }, answer: func(n int, r *http.Request, _ string) (int, string, string) {
				switch {
				case r.Header.Get("Content-Type") != contentType || r.URL.Path != "/v1/spools/default/queues/q/send-batch":
					return 404, "", ""
				case n%2 == 1:
					return 200, "", mixed
				}
				return 200, "", good
			}}
			c := f.config(ModeSendBatch)
			c.JSON, c.RatePerSecond = inJSON, 10
			r := f.measure(t, c)
			if r.Messages != 250 || r.Operations != 50 || r.Failures["409 k"] != 50 || len(r.Failures) != 1 || r.Batch != 3 {
				t.Errorf("%+v", r)
			}
		})
	}
}
