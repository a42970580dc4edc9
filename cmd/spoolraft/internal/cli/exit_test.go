package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func refusal(status int, kind string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"kind":%q,"message":"The server says so."}`, kind)}
}

// TestExitCodes covers what each status and each failure means for a script.
func TestExitCodes(t *testing.T) {
	tests := []struct {
		name     string
		args     string
		replies  []reply
		code     int
		requests int
		stderr   string // a part of it
	}{
		{"sent", "send q x", []reply{sentAs(201)}, ExitDone, 1, ""},
		{"bad request", "send q x", []reply{refusal(400, "dedup_disabled")}, ExitRefused, 1, "The server says so. (dedup_disabled)"},
		{"no key", "send q x", []reply{{status: 401, body: `{"message":"The key is unknown."}`}}, ExitRefused, 1, "The key is unknown"},
		{"stale", "ack l", []reply{refusal(410, "stale_token")}, ExitRefused, 1, "stale_token"},
		{"rate limited", "recv q", []reply{refusal(429, "rate_limited")}, ExitRefused, 1, "rate_limited"},
		{"full", "send q x", []reply{refusal(507, "spool_full")}, ExitRefused, 1, "spool_full"},
		{"no leader, no key", "send q x", []reply{refusal(503, "")}, ExitRefused, 1, "The server says so"},
		{"unconfirmed, no key", "send q x", []reply{refusal(500, "operation_unconfirmed")}, ExitUnknown, 1, "may store it twice"},
		{"bad gateway", "send q x", []reply{{status: 502, body: "<html>oops</html>"}}, ExitUnknown, 1, "502"},
		{"lost, no key", "send q x", []reply{{drop: true}}, ExitUnknown, 1, "The message may be stored"},
		{"foreign success", "send q x", []reply{{status: 200, body: "hello"}}, ExitUnknown, 1, "none that spoolraft gives"},
		{"redirect", "send q x", []reply{{status: 307, header: map[string]string{"Location": "/"}}}, ExitUnknown, 1, "307"},
		{"nothing received", "recv q", []reply{{status: 204}}, ExitNothing, 1, ""},
		{"lost receive", "recv q", []reply{{drop: true}}, ExitUnknown, 1, "delivered again"},
		{"unconfirmed ack", "ack l", []reply{refusal(500, "operation_unconfirmed")}, ExitUnknown, 1, "Do it again"},
		{"ack after receive refused", "recv q --ack", []reply{leased("x"), refusal(410, "stale_token")}, ExitRefused, 2, "stale_token"},
		{"lost read", "stats", []reply{{drop: true}}, ExitFailed, -1, "lost"},
		{"failed read", "queue get q", []reply{refusal(500, "operation_unconfirmed")}, ExitFailed, 1, ""},
		{"unreadable read", "queue get q", []reply{{status: 200, body: "[]"}}, ExitFailed, 1, "none that this version understands"},
		{"bad fault", "faults add 418", []reply{refusal(400, "")}, ExitRefused, 1, "The server says so"},
		{"no faults here", "faults add drop", []reply{refusal(404, "")}, ExitRefused, 1, "started without --faults"},
		{"no faults to list", "faults list", []reply{refusal(404, "")}, ExitRefused, 1, "started without --faults"},
		{"no such fault", "faults clear 1 2", []reply{{status: 204}, refusal(404, "rule_not_found")}, ExitRefused, 2, "rule_not_found"},
		{"lost fault", "faults add drop", []reply{{drop: true}}, ExitUnknown, 1, "lost"},
		{"lost create", "queue create q", []reply{{drop: true}}, ExitUnknown, 1, "lost"},

		{"keyed, unconfirmed, then stored", "send q x --dedup-key k", []reply{refusal(500, "operation_unconfirmed"), sentAs(200)}, ExitDone, 2, "sending again with the same key"},
		{"keyed, lost, then stored", "send q x --dedup-hash 00112233445566778899aabbccddeeff", []reply{{drop: true}, sentAs(201)}, ExitDone, 2, "sending again"},
		{"keyed, no leader, then stored", "send q x --dedup-key k", []reply{refusal(503, ""), sentAs(201)}, ExitDone, 2, "sending again"},
		{"keyed, in flight, then stored", "send q x --dedup-key k", []reply{refusal(409, "dedup_in_flight"), sentAs(200)}, ExitDone, 2, "dedup_in_flight"},
		{"keyed, refused", "send q x --dedup-key k", []reply{refusal(404, "queue_not_found")}, ExitRefused, 1, "queue_not_found"},
		{"keyed, unconfirmed, then refused", "send q x --dedup-key k", []reply{refusal(500, "operation_unconfirmed"), refusal(507, "spool_full")}, ExitUnknown, 2, "Gave up after 2 attempts"},
		{"keyed, time over", "send q x --dedup-key k --retry-for 1", []reply{{status: 503, header: map[string]string{"Retry-After": "60"}}}, ExitRefused, 1, "503"},
		{"keyed, no retry", "send q x --dedup-key k --retry-for 0", []reply{refusal(500, "operation_unconfirmed")}, ExitUnknown, 1, "same key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, requests := run(t, "", strings.Fields(tt.args), tt.replies...)
			if got.code != tt.code {
				t.Errorf("exit code %d, want %d; stderr %q", got.code, tt.code, got.stderr)
			}
			if tt.requests >= 0 && len(requests) != tt.requests {
				t.Errorf("%d requests, want %d", len(requests), tt.requests)
			}
			if !strings.Contains(got.stderr, tt.stderr) {
				t.Errorf("stderr %q lacks %q", got.stderr, tt.stderr)
			}
			if strings.Contains(got.stderr, "secret") {
				t.Errorf("stderr %q tells the key", got.stderr)
			}
		})
	}
}

// TestUsage: a wrong command line is one line on standard error, code 2, and
// no request.
func TestUsage(t *testing.T) {
	tests := []struct{ name, args, stderr string }{
		{"unknown command", "sned q x", `unknown command "sned"`},
		{"unknown queue command", "queue make q", `unknown command "make"`},
		{"unknown flag", "send q x --dedup k", "unknown flag"},
		{"no queue", "send", "spoolraft send QUEUE [PAYLOAD]"},
		{"too many", "ack a b", "spoolraft ack LEASE"},
		{"payload twice", "send q x --file f", "not both"},
		{"two keys", "send q x --dedup-key k --dedup-hash 00112233445566778899aabbccddeeff", "not both"},
		{"empty key", "send q x --dedup-key=", "--dedup-key must be"},
		{"odd key", "send q x --dedup-key ä", "--dedup-key must be"},
		{"long key", "send q x --dedup-key " + strings.Repeat("k", 257), "--dedup-key must be"},
		{"short hash", "send q x --dedup-hash 00", "32 hex digits"},
		{"bad delay", "send q x --delay 1.5s", "whole seconds"},
		{"negative delay", "send q x --delay -1s", "whole seconds"},
		{"long wait", "recv q --wait 61", "at most 60s"},
		{"no count", "recv q --count 0", "at least 1"},
		{"raw without ack", "recv q --raw", "--ack"},
		{"delete without a way", "queue delete q", "--force"},
		{"delete both ways", "queue delete q --force --drain", "--force"},
		{"update nothing", "queue update q", "nothing to change"},
		{"odd rate", "queue create q --recv-rate-limit 5", "MICROSECONDS:BURST"},
		{"discard nothing", "discard", "one of them"},
		{"discard both", "discard l --handle h", "one of them"},
		{"no fault", "faults add", "spoolraft faults add FAULT"},
		{"odd probability", "faults add drop --probability 2", "--probability must be"},
		{"no fault count", "faults add drop --count 0", "--count must be"},
		{"short delay", "faults add delay --delay 1us", "--delay must be"},
		{"no delay", "faults add delay", "needs --delay"},
		{"delayed drop", "faults add drop --delay 1s", "needs --delay"},
		{"faults of a spool", "faults list --spool default", "unknown flag"},
		{"no directory", "debug log", "spoolraft debug log DIR"},
		{"odd range", "debug log d --from 5 --to 4", "--from is above --to"},
		{"odd api", "stats --api localhost:8080", "must look like"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, requests := run(t, "", strings.Fields(tt.args), sentAs(201))
			if got.code != ExitUsage || got.stdout != "" || len(requests) != 0 {
				t.Errorf("exit code %d, stdout %q, %d requests", got.code, got.stdout, len(requests))
			}
			if !strings.Contains(got.stderr, tt.stderr) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", got.stderr, tt.stderr)
			}
		})
	}
}

func TestNoKey(t *testing.T) {
	t.Setenv("SPOOLER_KEY", "")
	if got := runAlone("", []string{"stats"}); got.code != ExitUsage || !strings.Contains(got.stderr, "SPOOLER_KEY") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api := "http://" + l.Addr().String()
	l.Close()
	got := runAlone("", []string{"send", "q", "x", "--key", "k", "--api", api})
	if got.code != ExitFailed || !strings.Contains(got.stderr, "nothing happened") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

func TestPayloadFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(path, []byte("\x00from a file\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, requests := run(t, "not this", []string{"send", "q", "--file", path}, sentAs(201))
	if got.code != ExitDone || requests[0].body != "\x00from a file\xff" {
		t.Errorf("exit code %d, sent %q", got.code, requests[0].body)
	}
	got, requests = run(t, "", []string{"send", "q", "--file", path + "x"}, sentAs(201))
	if got.code != ExitFailed || len(requests) != 0 || !strings.Contains(got.stderr, "nothing was sent") {
		t.Errorf("missing file: exit code %d, stderr %q", got.code, got.stderr)
	}
}

// TestUnwritableOutput: what cannot be shown is not acknowledged.
func TestUnwritableOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	f := &fake{t: t, replies: []reply{leased("x")}}
	server := newServer(t, f)
	t.Setenv("SPOOLER_KEY", "k")
	var stderr strings.Builder
	code := Run(t.Context(), []string{"recv", "q", "--ack", "--api", server}, strings.NewReader(""), full, &stderr)
	if code != ExitUnknown || len(f.requests()) != 1 {
		t.Errorf("exit code %d after %d requests, stderr %q", code, len(f.requests()), stderr.String())
	}
}

// TestHelp: every command tells what it does, with an example.
func TestHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s lacks a short text or an example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
		if got := runAlone("", append(strings.Fields(c.CommandPath())[1:], "--help")); got.code != ExitDone || got.stdout == "" {
			t.Errorf("%s --help: exit code %d", c.CommandPath(), got.code)
		}
	}
	walk(newRoot())
}
