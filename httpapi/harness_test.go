package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

const testQueue = "/v1/spools/default/queues/orders"

// newTestServer returns a server over b that takes any key.
func newTestServer(t testing.TB, b Broker, change ...func(*Config)) *Server {
	t.Helper()
	config := Config{Broker: b, Cluster: &fakeCluster{}, AnyKey: true, Version: "test"}
	for _, f := range change {
		f(&config)
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// header is a list of names and values of a request.
type header []string

// newRequest makes a request with a key, unless the headers bring their own.
func newRequest(method, target, body string, h header) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer test-key")
	for i := 0; i < len(h); i += 2 {
		if h[i] == "Authorization" {
			r.Header.Del("Authorization")
		}
	}
	for i := 0; i < len(h); i += 2 {
		r.Header.Add(h[i], h[i+1])
	}
	return r
}

// serve sends one request through the handler. Every answer in every test is
// held against the OpenAPI document, where the test binary has the validator.
func serve(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := holdAgainstDocument(r, w); err != nil {
		panic(err)
	}
	return w
}

func do(s http.Handler, method, target, body string, h ...string) *httptest.ResponseRecorder {
	return serve(s, newRequest(method, target, body, h))
}

// wantStatus fails the test unless the answer has the status.
func wantStatus(t testing.TB, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
}

// wantProblem fails the test unless the answer is this error, well formed.
func wantProblem(t testing.TB, w *httptest.ResponseRecorder, status int, kind string) errorJSON {
	t.Helper()
	wantStatus(t, w, status)
	var got errorJSON
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("the error is no JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		t.Fatalf("something follows the error")
	}
	if got.Kind != kind {
		t.Fatalf("kind %q, want %q: %s", got.Kind, kind, got.Message)
	}
	if got.Message == "" || !strings.HasSuffix(got.Message, ".") {
		t.Fatalf("the message is no sentence: %q", got.Message)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Fatalf("content type %q", ct)
	}
	retry := w.Header().Get("Retry-After")
	if needs := status == 503 || status == 429; needs != (retry != "") || retry == "0" {
		t.Fatalf("Retry-After %q on %d", retry, status)
	}
	return got
}

// fields decodes a JSON object.
func fields(t testing.TB, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return got
}

// sealed makes a token of the fake broker's cluster.
func sealed(sort fsm.TokenSort) string {
	return fsm.Sealer{}.Seal(fsm.Token{Sort: sort, Moves: 3, Queue: 1, Message: 2})
}

// newQueue creates the queue that the tests use.
func newQueue(t testing.TB, s *Server, settings string) {
	t.Helper()
	wantStatus(t, do(s, "PUT", testQueue, settings), 201)
}
