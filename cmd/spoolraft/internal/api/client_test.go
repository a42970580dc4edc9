package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestBase(t *testing.T) {
	tests := []struct{ base, want string }{ // want "": refused
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"},
		{"http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"},
		{"https://queue.example/v1/", "https://queue.example/v1"},
		{"https://queue.example/behind/a/proxy", "https://queue.example/behind/a/proxy/v1"},
		{"127.0.0.1:8080", ""},
		{"localhost", ""},
		{"ftp://queue.example", ""},
		{"http://queue.example/?a=b", ""},
		{"http://", ""},
		{"", ""},
	}
	for _, tt := range tests {
		c, err := New(tt.base, "k", "default", time.Second)
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%q is taken as %q", tt.base, c.base)
		case tt.want != "" && (err != nil || c.base != tt.want):
			t.Errorf("%q: %+v, %v, want %q", tt.base, c, err, tt.want)
		}
	}
}

// TestTruncatedAnswer: a payload that breaks off is no payload.
func TestTruncatedAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set(headerID, "1-1")
		w.Header().Set(headerLease, "l")
		_, _ = w.Write([]byte("only this"))
	}))
	defer server.Close()
	c, err := New(server.URL, "k", "default", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Receive(t.Context(), "q", 0)
	if e, ok := err.(*Error); !ok || e.Outcome != Unknown {
		t.Errorf("received %+v, %v", d, err)
	}
}

// TestOutcomes is the split of the contract.
func TestOutcomes(t *testing.T) {
	for status, want := range map[int]Outcome{
		307: Unknown, 400: Refused, 404: Refused, 409: Refused, 410: Refused, 429: Refused,
		500: Unknown, 502: Unknown, 503: Refused, 504: Unknown, 507: Refused,
	} {
		if got := outcomeOf(status, true); got != want {
			t.Errorf("a change answered %d: outcome %d, want %d", status, got, want)
		}
	}
	if got := outcomeOf(500, false); got != Failed {
		t.Errorf("a read answered 500: outcome %d", got)
	}
}
