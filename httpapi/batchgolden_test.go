package httpapi

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGoldenBatches pins the binary encoding, which clients speak.
func TestGoldenBatches(t *testing.T) {
	var b strings.Builder
	line := func(name, bytes string) { fmt.Fprintf(&b, "%s: %s\n", name, hex.EncodeToString([]byte(bytes))) }

	sends := []sentItem{{}, {payload: "payload"}, {payload: "\x00\xff", delay: 604_800}, {payload: "k", key: "order-1"}, {hash: "00112233445566778899aabbccddeeff", delay: 1}}
	line("sends", binarySends(sends))
	for i, item := range must(binaryBatch{}.decodeSends(binarySends(sends), 100)) {
		if want := sends[i]; item.fault != nil || item.payload != want.payload || uint64(item.delaySeconds) != want.delay || item.keyed != (want.key+want.hash != "") {
			t.Errorf("item %d: %+v, want %+v", i, item, want)
		}
	}
	settles := []settledItem{{op: "ack", lease: "AQEBAbf23vCbNWC1wBgDbQ"}, {op: "nack", lease: "a"}, {op: "release", lease: "b", delay: 300}, {op: "fail", lease: "c"}, {op: "discard", lease: "d"}, {op: "renew", lease: "e"}}
	line("settles", binarySettles(settles))
	for i, item := range must(binaryBatch{}.decodeSettles(binarySettles(settles))) {
		if want := settles[i]; item.fault != nil || item.lease != want.lease || uint64(item.delaySeconds) != want.delay || !strings.EqualFold(settleOps[i+1].name, want.op) {
			t.Errorf("item %d: %+v, want %+v", i, item, want)
		}
	}
	line("answers", string(binaryBatch{}.encodeAnswers([]itemAnswer{
		{status: 201, id: fsm.MessageID{Queue: 300, Message: 1 << 40}, handle: "AgEBAwlcUk4doPaazzkD6A"},
		{status: 200, id: fsm.MessageID{Queue: 1, Message: 2}},
		{status: 204},
		{status: 204, leaseExpiresAtMs: 1_767_323_045_678},
		{status: 409, problem: &problem{kind: "dedup_in_flight", message: "m."}},
		{status: 503, problem: &problem{message: "m.", retryAfterSeconds: 300}},
		{status: 507, problem: &problem{kind: "spool_full", message: "m.", details: map[string]any{"limit": "messages", "max": 7}}},
	})))
	line("deliveries", string(binaryBatch{}.encodeDeliveries([]delivery{
		{&fsm.Delivery{ID: fsm.MessageID{Queue: 300, Message: 1 << 40}, Retries: 3, LeaseExpiresAtMs: 1_767_323_045_678, Payload: "\x00payload"}, "AQEBAbf23vCbNWC1wBgDbQ"},
		{&fsm.Delivery{ID: fsm.MessageID{Queue: 1, Message: 1}}, "a"},
	})))

	path := filepath.Join("testdata", "batch.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s has changed: clients of earlier versions would not be understood\ngot:\n%swant:\n%s", path, &b, want)
	}
}

// TestDocumentedBatch reads the batch that docs/api.md writes out.
func TestDocumentedBatch(t *testing.T) {
	const documented = "01 01 03   02 00 78   04 02 01 6b 79   03 01 ac 02"
	page, err := os.ReadFile("../docs/api.md")
	if err != nil || !strings.Contains(string(page), documented) {
		t.Fatalf("the page has no such batch, %v", err)
	}
	body, err := hex.DecodeString(strings.ReplaceAll(documented, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	got := must(binaryBatch{}.decodeSends(string(body), 100))
	want := []sendItem{{payload: "x"}, {payload: "y", keyed: true, key: fsm.FingerprintOf("k")}, {delaySeconds: 300}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func must[T any](items []T, p *problem) []T {
	if p != nil {
		panic(p.message)
	}
	return items
}

// TestBatchesAreFrugal gives the decoders counts and lengths that the body does
// not keep, and much that means little.
func TestBatchesAreFrugal(t *testing.T) {
	bodies := map[string]string{
		"1,000 items, none there":  "\x01\x01\xe8\x07",
		"a length of 2^63":         "\x01\x01\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
		"a key of 2^63":            string(text([]byte{1, 1, 1}, "\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")),
		"100,000 empty objects":    `{"items":[` + strings.Repeat("{},", 100_000) + `{}]}`,
		"deep":                     `{"items":` + strings.Repeat("[", 100_000),
		"deep, in an item":         `{"items":[{"payload":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}]}`,
		"a payload of one byte in": binarySends([]sentItem{{payload: strings.Repeat("x", 1<<20)}}),
	}
	for what, body := range bodies {
		for _, e := range []batchEncoding{jsonBatch{}, binaryBatch{}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = e.decodeSends(body, 1<<20)
			_, _ = e.decodeSettles(body)
			runtime.ReadMemStats(&after)
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(200<<10+10*len(body)); got > most {
				t.Errorf("%T, %s (%d bytes): allocates %d bytes, want %d at most", e, what, len(body), got, most)
			}
		}
	}
}
