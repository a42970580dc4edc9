package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// reply is what the fake server answers to one request.
type reply struct {
	status int
	header map[string]string
	body   string
	drop   bool // close the connection instead of answering
}

// fake answers requests in turn, the last reply for ever, and keeps them.
type fake struct {
	t       *testing.T
	mu      sync.Mutex
	replies []reply
	seen    []request
}

type request struct {
	line   string // method and path with query
	header http.Header
	body   string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	f.seen = append(f.seen, request{r.Method + " " + r.URL.RequestURI(), r.Header, string(body)})
	next := f.replies[0]
	if len(f.replies) > 1 {
		f.replies = f.replies[1:]
	}
	f.mu.Unlock()
	if next.drop {
		panic(http.ErrAbortHandler)
	}
	for name, value := range next.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(next.status)
	if _, err := io.WriteString(w, next.body); err != nil {
		f.t.Error(err)
	}
}

func (f *fake) requests() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func newServer(t *testing.T, f *fake) string {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

type outcome struct {
	code           int
	stdout, stderr string
}

// run carries out a command line against a server with these replies.
func run(t *testing.T, stdin string, args []string, replies ...reply) (outcome, []request) {
	t.Helper()
	f := &fake{t: t, replies: replies}
	t.Setenv("SPOOLER_API", newServer(t, f)+"/v1")
	t.Setenv("SPOOLER_KEY", "secret")
	return runAlone(stdin, args), f.requests()
}

func runAlone(stdin string, args []string) outcome {
	var stdout, stderr bytes.Buffer
	code := Run(context.Background(), args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

const queueJSON = `{"name":"jobs","uid":"u1","createdAt":"2026-01-02T03:04:05Z","state":"active","settings":` +
	`{"leaseTimeoutSeconds":30,"maxRetries":5,"dedupWindowSeconds":3600,"retentionSeconds":345600,` +
	`"effectiveRetentionSeconds":86400,"recvRateLimit":{"intervalMicros":1000,"burst":50}}}`

const statsJSON = `{"total":3,"dataBytes":12,"delayed":1,"visible":1,"pending":1,"failed":0,"unavailable":0,"addedTotal":9,` +
	`"ackedTotal":5,"nackedTotal":2,"releasedTotal":1,"failedTotal":0,"discardedTotal":1,"expiredTotal":0}`

const messageJSON = `{"id":"1-1","state":"pending","retries":2,"createdAt":"2026-01-02T03:04:05Z",` +
	`"leaseExpiresAt":"2026-01-02T03:05:05Z","expiresAt":"2026-01-06T03:04:05Z","handle":"h1"}`

const faultJSON = `{"id":"1","fault":"delay","when":"after","operation":"send","spool":"default","queue":"jobs","delayMs":250,` +
	`"probability":0.3,"count":5,"seed":7,"matched":9,"injected":2,"hiddenSuccesses":1}`

func leased(payload string) reply {
	return reply{status: 200, body: payload, header: map[string]string{
		"Spooler-Message-Id": "1-1", "Spooler-Message-Retries": "0", "Spooler-Lease": "lease1",
		"Spooler-Lease-Expires-At": "2026-01-02T03:05:05Z",
	}}
}

func sentAs(status int) reply {
	return reply{status: status, header: map[string]string{"Spooler-Message-Id": "1-1"}}
}

// TestOutput pins what each command asks of the server and prints, in
// testdata/NAME.golden.
func TestOutput(t *testing.T) {
	withHandle := sentAs(201)
	withHandle.header["Spooler-Handle"] = "h1"
	inspected := reply{status: 200, body: "hello", header: map[string]string{
		"Spooler-Message-Id": "1-1", "Spooler-Message-State": "failed", "Spooler-Message-Retries": "5",
	}}
	tests := []struct {
		name    string
		args    string
		stdin   string
		replies []reply
	}{
		{"queue-create", "queue create jobs --dedup-window 1h --lease-timeout 90 --max-retries 0 --recv-rate-limit 1000:50", "", []reply{{status: 201, body: queueJSON}}},
		{"queue-create-plain", "queue create jobs --json", "", []reply{{status: 201, body: queueJSON}}},
		{"queue-get", "queue get jobs --spool other", "", []reply{{status: 200, body: queueJSON}}},
		{"queue-update", "queue update jobs --recv-rate-limit off --retention 7d", "", []reply{{status: 200, body: queueJSON}}},
		{"queue-delete", "queue delete jobs --force --uid u1", "", []reply{{status: 202}}},
		{"queue-drain", "queue delete jobs --drain", "", []reply{{status: 202}}},
		{"queue-list", "queue list --match ^j --limit 1", "", []reply{{status: 200, body: `{"items":[` + queueJSON + `],"next":"jobs"}`}}},
		{"queue-list-empty", "queue list", "", []reply{{status: 200, body: `{"items":[]}`}}},
		{"stats", "stats jobs other", "", []reply{{status: 200, body: `{"queueCount":2,"stats":` + statsJSON + `,"queues":{"items":[` +
			strings.TrimSuffix(queueJSON, "}") + `,"stats":` + statsJSON + `}]}}`}}},
		{"stats-json", "stats --json", "", []reply{{status: 200, body: `{"queueCount":0,"stats":` + statsJSON + `,"queues":{"items":[]}}`}}},
		{"send", "send jobs hello", "", []reply{sentAs(201)}},
		{"send-stdin", "send jobs --delay 1m30s --handle", "from a pipe\n", []reply{withHandle}},
		{"send-empty", "send jobs --json", "", []reply{sentAs(201)}},
		{"send-duplicate", "send jobs hello --dedup-key order-1", "", []reply{sentAs(200)}},
		{"send-hash", "send jobs hello --dedup-hash 00112233445566778899aabbccddeeff --json", "", []reply{sentAs(201)}},
		{"recv", "recv jobs", "", []reply{leased("hello")}},
		{"recv-ack", "recv jobs --ack --wait 0", "", []reply{leased("hello"), {status: 204}}},
		{"recv-raw", "recv jobs --ack --raw", "", []reply{leased("\x00\xff"), {status: 204}}},
		{"recv-json", "recv jobs --json", "", []reply{leased("hello")}},
		{"recv-json-binary", "recv jobs --json", "", []reply{leased("\x00\xff")}},
		{"recv-count", "recv jobs --count 3", "", []reply{leased("one"), leased("two"), {status: 204}}},
		{"ack", "ack lease1", "", []reply{{status: 204}}},
		{"nack", "nack lease1", "", []reply{{status: 204}}},
		{"release", "release lease1 --delay 1m", "", []reply{{status: 204}}},
		{"fail", "fail lease1", "", []reply{{status: 204}}},
		{"discard", "discard lease1", "", []reply{{status: 204}}},
		{"discard-handle", "discard --handle h1", "", []reply{{status: 204}}},
		{"renew", "renew lease1", "", []reply{{status: 204, header: map[string]string{"Spooler-Lease-Expires-At": "2026-01-02T03:05:05Z"}}}},
		{"renew-never", "renew lease1 --json", "", []reply{{status: 204}}},
		{"inspect", "inspect h1", "", []reply{inspected}},
		{"inspect-json", "inspect h1 --json", "", []reply{inspected}},
		{"recover", "recover h1 --delay 1d", "", []reply{{status: 204}}},
		{"messages", "messages jobs --state pending", "", []reply{{status: 200, body: `{"items":[` + messageJSON + `],"next":"1-1"}`}}},
		{"faults-add", "faults add delay --when after --operation send --queue jobs --delay 250ms --probability 0.3 --count 5 --seed 7", "", []reply{{status: 201, body: faultJSON}}},
		{"faults-add-plain", "faults add drop --spool other --json", "", []reply{{status: 201, body: faultJSON}}},
		{"faults-list", "faults list", "", []reply{{status: 200, body: `{"items":[` + faultJSON + `,{"id":"2","fault":"drop","when":"after","probability":1,"seed":0}]}`}}},
		{"faults-list-json", "faults list --json", "", []reply{{status: 200, body: `{"items":[]}`}}},
		{"faults-clear", "faults clear", "", []reply{{status: 204}}},
		{"faults-clear-two", "faults clear 1 2", "", []reply{{status: 204}}},
		{"messages-handle", "messages jobs --handle --after 1-0", "", []reply{{status: 200, body: `{"items":[` + messageJSON + `]}`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, requests := run(t, tt.stdin, strings.Fields(tt.args), tt.replies...)
			if got.code != ExitDone {
				t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
			}
			golden(t, tt.name, transcript(tt.args, requests, got))
		})
	}
}

func transcript(args string, requests []request, got outcome) string {
	var b strings.Builder
	b.WriteString("$ spoolraft " + args + "\n")
	for _, r := range requests {
		b.WriteString("> " + r.line + "\n")
		for _, name := range []string{
			"Authorization", "Content-Type", "Content-Length", "Spooler-Delay-Seconds", "Spooler-Dedup-String",
			"Spooler-Dedup-Hash", "Spooler-Lease", "Spooler-Handle",
		} {
			if v := r.header.Get(name); v != "" {
				b.WriteString("> " + name + ": " + v + "\n")
			}
		}
		if r.body != "" {
			b.WriteString("> " + strings.TrimSpace(r.body) + "\n")
		}
	}
	b.WriteString("--- stdout\n" + got.stdout + "--- stderr\n" + got.stderr)
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("output of %s differs from %s; got:\n%s\nwant:\n%s", name, path, got, want)
	}
}

func TestVersionNamesGo(t *testing.T) {
	got := runAlone("", []string{"version", "--json"})
	var v struct{ Version, Go string }
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("version printed %q (%v)", got.stdout, err)
	}
}
