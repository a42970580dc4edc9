package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"
)

// The other side of both encodings, as a client would write it, so that every
// test of a batch runs over both.

const (
	batchSendURL    = testQueue + "/send-batch"
	batchReceiveURL = testQueue + "/recv-batch"
	batchSettleURL  = spoolURL + "/settle-batch"
)

// sentItem is an item to send as a client has it. A zero field is not sent.
type sentItem struct {
	payload string
	key     string
	hash    string // 32 hexadecimal digits
	delay   uint64
}

type settledItem struct {
	lease, op string
	delay     uint64
}

// gotItem is an answer to an item, or a delivery.
type gotItem struct {
	Status            int            `json:"status"`
	ID                string         `json:"id"`
	Handle            string         `json:"handle"`
	Kind              string         `json:"kind"`
	Message           string         `json:"message"`
	Details           map[string]any `json:"details"`
	RetryAfterSeconds int            `json:"retryAfterSeconds"`
	Lease             string         `json:"lease"`
	LeaseExpiresAt    string         `json:"leaseExpiresAt"`
	Retries           int            `json:"retries"`
	Payload           string         `json:"payload"`
	PayloadBase64     *string        `json:"payloadBase64"`
}

// client speaks one encoding.
type client struct {
	name   string
	h      header // of a request with a body
	accept header
	sends  func([]sentItem) string
	settle func([]settledItem) string
	read   func(testing.TB, *httptest.ResponseRecorder) []gotItem
}

var clients = []client{
	{"json", header{"Content-Type", "application/json"}, header{"Accept", "application/json"}, jsonSends, jsonSettles, readJSONItems},
	{"binary", header{"Content-Type", typeBinaryBatch}, header{"Accept", "text/html, " + typeBinaryBatch + ";q=0.9"}, binarySends, binarySettles, readBinaryItems},
}

func eachEncoding(t *testing.T, test func(*testing.T, client)) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

// send sends a batch and wants answers.
func (c client) send(t testing.TB, s *Server, query string, items ...sentItem) []gotItem {
	t.Helper()
	return c.items(t, do(s, "POST", batchSendURL+query, c.sends(items), c.h...))
}

func (c client) settleAll(t testing.TB, s *Server, items ...settledItem) []gotItem {
	t.Helper()
	return c.items(t, do(s, "POST", batchSettleURL, c.settle(items), c.h...))
}

func (c client) receive(t testing.TB, s *Server, query string) []gotItem {
	t.Helper()
	return c.items(t, do(s, "POST", batchReceiveURL+query, "", c.accept...))
}

func (c client) items(t testing.TB, w *httptest.ResponseRecorder) []gotItem {
	t.Helper()
	wantStatus(t, w, 200)
	if got, want := w.Header().Get("Content-Type"), (map[string]string{"json": typeJSON, "binary": typeBinaryBatch})[c.name]; got != want {
		t.Fatalf("content type %q, want %q", got, want)
	}
	return c.read(t, w)
}

func jsonSends(items []sentItem) string {
	var all []map[string]any
	for _, i := range items {
		m := map[string]any{"payloadBase64": base64.StdEncoding.EncodeToString([]byte(i.payload))}
		if i.key != "" {
			m["dedupString"] = i.key
		}
		if i.hash != "" {
			m["dedupHash"] = i.hash
		}
		if i.delay != 0 {
			m["delaySeconds"] = i.delay
		}
		all = append(all, m)
	}
	return encodeJSON(map[string]any{"items": all})
}

func jsonSettles(items []settledItem) string {
	var all []map[string]any
	for _, i := range items {
		m := map[string]any{"lease": i.lease, "op": i.op}
		if i.delay != 0 {
			m["delaySeconds"] = i.delay
		}
		all = append(all, m)
	}
	return encodeJSON(map[string]any{"items": all})
}

func readJSONItems(t testing.TB, w *httptest.ResponseRecorder) []gotItem {
	t.Helper()
	var got struct {
		Items []gotItem `json:"items"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for i := range got.Items {
		if text := got.Items[i].PayloadBase64; text != nil {
			payload, err := base64.StdEncoding.DecodeString(*text)
			if err != nil {
				t.Fatal(err)
			}
			got.Items[i].Payload, got.Items[i].PayloadBase64 = string(payload), nil
		}
	}
	return got.Items
}

func uv(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func text(b []byte, s string) []byte { return append(uv(b, uint64(len(s))), s...) }

func binarySends(items []sentItem) string {
	b := uv([]byte{1, 1}, uint64(len(items)))
	for _, i := range items {
		b = text(b, i.bytes())
	}
	return string(b)
}

func (i sentItem) bytes() string {
	b := []byte{0}
	if i.delay != 0 {
		b[0] |= 1
		b = uv(b, i.delay)
	}
	if i.key != "" {
		b[0] |= 2
		b = text(b, i.key)
	}
	if i.hash != "" {
		b[0] |= 4
		key, err := hex.DecodeString(i.hash)
		if err != nil {
			panic(err)
		}
		b = append(b, key...)
	}
	return string(append(b, i.payload...))
}

func binarySettles(items []settledItem) string {
	b := uv([]byte{1, 2}, uint64(len(items)))
	for _, i := range items {
		op := map[string]byte{"ack": 1, "nack": 2, "release": 3, "fail": 4, "discard": 5, "renew": 6}[i.op]
		item := []byte{op}
		if i.op == "release" {
			item = uv(item, i.delay)
		}
		b = text(b, string(append(item, i.lease...)))
	}
	return string(b)
}

// readBinaryItems reads answers and deliveries.
func readBinaryItems(t testing.TB, w *httptest.ResponseRecorder) (items []gotItem) {
	t.Helper()
	b := w.Body.Bytes()
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("no number in %x", b)
		}
		b = b[n:]
		return v
	}
	word := func() string {
		n := number()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	id := func() string { return fmt.Sprintf("%d-%d", number(), number()) }
	instant := func() string {
		if ms := int64(number()); ms != 0 {
			return time.UnixMilli(ms).UTC().Format(timeLayout)
		}
		return ""
	}
	if len(b) < 2 || b[0] != 1 || b[1] != 3 && b[1] != 4 {
		t.Fatalf("no batch: %x", b)
	}
	deliveries := b[1] == 4
	b = b[2:]
	for n := number(); n > 0; n-- {
		item := word()
		rest := b
		b = []byte(item)
		var got gotItem
		if deliveries {
			got.ID, got.Retries, got.LeaseExpiresAt, got.Lease = id(), int(number()), instant(), word()
			got.Payload, b = string(b), nil
		} else {
			got.Status = int(number())
			parts := number()
			if parts&1 != 0 {
				got.ID = id()
			}
			if parts&2 != 0 {
				got.Handle = word()
			}
			if parts&4 != 0 {
				got.LeaseExpiresAt = instant()
			}
			if parts&8 != 0 {
				got.RetryAfterSeconds, got.Kind, got.Message = int(number()), word(), word()
				if len(b) > 0 {
					if err := json.Unmarshal(b, &got.Details); err != nil {
						t.Fatal(err)
					}
				}
				b = nil
			}
		}
		if len(b) != 0 {
			t.Fatalf("%x is left of an item", b)
		}
		items, b = append(items, got), rest
	}
	if len(b) != 0 {
		t.Fatalf("%x is left", b)
	}
	return items
}
