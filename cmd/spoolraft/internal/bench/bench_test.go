package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeNode answers every request over connections in memory, so that a test's
// clock can be the one of synctest.
type fakeNode struct {
	answer func(n int, r *http.Request, sent string) (status int, header, body string)
	delay  func(n int) time.Duration

	mu       sync.Mutex
	requests int
	keys     map[string]bool
	all      sync.WaitGroup
}

func (f *fakeNode) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.all.Go(func() { f.serve(theirs) })
	return ours, nil
}

func (f *fakeNode) serve(nc net.Conn) {
	defer nc.Close()
	for in := bufio.NewReader(nc); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		n := f.requests
		f.requests++
		if key := r.Header.Get("Spooler-Dedup-String"); key != "" {
			if f.keys == nil {
				f.keys = make(map[string]bool)
			}
			f.keys[key] = true
		}
		f.mu.Unlock()
		status, header, body := 201, "", ""
		if f.answer != nil {
			status, header, body = f.answer(n, r, string(sent))
		}
		if f.delay != nil {
			time.Sleep(f.delay(n))
		}
		if _, err := io.WriteString(nc, answerText(status, header, body)); err != nil {
			return
		}
	}
}

func answerText(status int, header, body string) string {
	var b strings.Builder
	w := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}
	if name, value, ok := strings.Cut(header, ": "); ok {
		w.Header.Set(name, value)
	}
	if err := w.Write(&b); err != nil {
		panic(err)
	}
	return b.String()
}

func (f *fakeNode) config(mode Mode) Config {
	return Config{
		Mode: mode, Nodes: []string{"http://node"}, Queues: []string{"q"}, Key: "k", Spool: "default", Clients: 1, Duration: 10 * time.Second,
		Timeout: time.Minute, SizeBytes: 64, Keyed: true, Batch: 3, dial: f.dial,
	}
}

// measure runs a measurement to its end.
func (f *fakeNode) measure(t *testing.T, c Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f.all.Wait()
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.98-0.01 || got > want*1.02+0.01 {
		t.Errorf("%s is %v, want about %v", what, got, want)
	}
}

// TestOpenLoopChargesAStall has a node that answers within a millisecond, and
// once only after a second. In that second 100 operations were due, each of
// which waited.
func TestOpenLoopChargesAStall(t *testing.T) {
	stalling := func() *fakeNode {
		return &fakeNode{delay: func(n int) time.Duration {
			if n == 300 {
				return time.Second
			}
			return time.Millisecond
		}}
	}
	synctest.Test(t, func(t *testing.T) {
		f := stalling()
		c := f.config(ModeSend)
		c.RatePerSecond = 100
		r := f.measure(t, c)
		if r.Messages != 1000 || r.Missed != 0 || len(r.Failures) != 0 || f.requests != 1000 || len(f.keys) != 1000 {
			t.Fatalf("%+v, %d requests", r, f.requests)
		}
		due, begun := r.Latencies[0], r.Latencies[1]
		near(t, "the median", due.P50Ms, 1)
		near(t, "the maximum", due.MaxMs, 1000)
		// The stall and 111 operations after it, which were made up for a
		// millisecond each, waited from 1,000 ms down to 1 ms, 9 ms apart.
		near(t, "p99, with ten above", due.P99Ms, 1000-10*9)
		near(t, "p90, with a hundred above", due.P90Ms, 1000-100*9)
		near(t, "p99 of operations once begun", begun.P99Ms, 1)
		near(t, "the maximum of operations once begun", begun.MaxMs, 1000)
	})
	synctest.Test(t, func(t *testing.T) {
		f := stalling()
		r := f.measure(t, f.config(ModeSend))
		near(t, "p99 of a closed loop, which calls nothing while it waits,", r.Latencies[0].P99Ms, 1)
		near(t, "its operations", float64(r.Operations), 9000)
		if len(r.Latencies) != 1 {
			t.Errorf("%d series", len(r.Latencies))
		}
	})
}

// TestOperationsThatCannotBeMade says what a node could not take.
func TestOperationsThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{delay: func(int) time.Duration { return time.Second }}
		c := f.config(ModeSend)
		c.RatePerSecond = 10
		r := f.measure(t, c)
		// One a second in the 10 s, and in the 10 s of grace; 100 were due.
		if done := r.Operations; done < 19 || done > 22 || done+r.Missed != 100 || r.Warning() == "" {
			t.Errorf("%d done, %d missed, %q", done, r.Missed, r.Warning())
		}
	})
}

func TestWarmupDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{delay: func(n int) time.Duration {
			if n < 20 { // two seconds' worth
				return 50 * time.Millisecond
			}
			return time.Millisecond
		}}
		c := f.config(ModeSend)
		c.RatePerSecond, c.Warmup, c.Clients = 10, 2*time.Second, 2
		r := f.measure(t, c)
		if r.Messages != 100 || r.Latencies[0].Count != 100 || f.requests != 120 {
			t.Errorf("%d messages, %d requests", r.Messages, f.requests)
		}
		if once := r.Latencies[1].Count; once != 100 {
			t.Errorf("%d operations once begun", once)
		}
		near(t, "the maximum", r.Latencies[0].MaxMs, 1)
		near(t, "the rate", r.MessagesPerSecond, 10)
		near(t, "the measured time", r.Seconds, 10)
	})
}

// TestCycle follows a message through its three calls.
func TestCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{
			answer: func(_ int, r *http.Request, _ string) (int, string, string) {
				switch path := r.URL.Path; {
				case strings.HasSuffix(path, "/queues/q/send"):
					return 201, "", ""
				case strings.HasSuffix(path, "/queues/q/recv"):
					return 200, "spooler-lease: L1", "payload"
				case strings.HasSuffix(path, "/spools/default/ack") && r.Header.Get("Spooler-Lease") == "L1" && r.Header.Get("Authorization") == "Bearer k":
					return 204, "", ""
				default:
					return 404, "", ""
				}
			},
			delay: func(n int) time.Duration { return time.Duration(n%3+1) * time.Millisecond },
		}
		r := f.measure(t, f.config(ModeCycle))
		if len(r.Failures) != 0 {
			t.Fatalf("%v", r.Failures)
		}
		for i, want := range []float64{6, 1, 2, 3} {
			near(t, r.Latencies[i].Name, r.Latencies[i].P50Ms, want)
		}
		near(t, "the cycles", float64(r.Operations), 10_000.0/6)
	})
}

// TestWait measures from when a message was due to its receipt. What others sent
// is acked and does not count.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan string, 1000)
		f := &fakeNode{}
		f.answer = func(_ int, r *http.Request, sent string) (int, string, string) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/send"):
				time.Sleep(5 * time.Millisecond)
				messages <- sent
				messages <- "of somebody else"
				return 201, "", ""
			case strings.HasSuffix(r.URL.Path, "/ack"):
				return 204, "", ""
			}
			select {
			case message := <-messages:
				return 200, "spooler-lease: L", message
			case <-time.After(receiverWait):
				return 204, "", ""
			}
		}
		c := f.config(ModeWait)
		c.RatePerSecond, c.Clients = 10, 5
		r := f.measure(t, c)
		if r.Messages != 100 || r.Missed != 0 || len(r.Failures) != 0 || r.Warning() != "" {
			t.Errorf("%d messages, %d missed, %v", r.Messages, r.Missed, r.Failures)
		}
		near(t, r.Latencies[0].Name, r.Latencies[0].P99Ms, 5)
		if acks := r.Latencies[2].Count; acks < 199 || acks > 200 {
			t.Errorf("%d acks", acks)
		}
	})
}

func TestStamps(t *testing.T) {
	payload := append(appendStamp(nil, 77, 1234567*time.Nanosecond), "abc"...)
	if since, ours := readStamp(payload, 77); since != 1234567 || !ours || len(payload) != stampBytes+3 {
		t.Errorf("%v %v", since, ours)
	}
	for _, other := range []string{"", "short", strings.Repeat("x", 100), strings.Repeat("1 ", 50)} {
		if _, ours := readStamp([]byte(other), 77); ours {
			t.Errorf("%q is ours", other)
		}
	}
	if _, ours := readStamp(payload, 78); ours {
		t.Error("another run's message is ours")
	}
}

// TestFailures counts what is not a success, by what it was.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{
			delay: func(int) time.Duration { return 10 * time.Millisecond },
			answer: func(n int, _ *http.Request, _ string) (int, string, string) {
				switch n % 4 {
				case 1:
					return 503, "", `{"message":"Later."}`
				case 2:
					return 409, "", `{"kind":"dedup_in_flight","message":"Later."}`
				case 3:
					return 502, "", "<html>"
				}
				return 201, "", ""
			},
		}
		c := f.config(ModeSend)
		c.RatePerSecond = 40
		r := f.measure(t, c)
		if r.Operations != 100 || r.Failures["503"] != 100 || r.Failures["409 dedup_in_flight"] != 100 || r.Failures["502"] != 100 || len(r.Failures) != 3 {
			t.Errorf("%d good, %v", r.Operations, r.Failures)
		}
		if r.Latencies[0].Count != 400 {
			t.Errorf("%d latencies", r.Latencies[0].Count)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{}
		c := f.config(ModeSend)
		c.dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") }
		r := f.measure(t, c)
		if r.Operations != 0 || len(r.Failures) != 1 || r.Failures[notConnected] != 100 || r.Warning() == "" {
			t.Errorf("%d good, %v", r.Operations, r.Failures)
		}
	})
}

// TestInterrupted ends a run with what was measured.
func TestInterrupted(t *testing.T) {
	for _, mode := range []Mode{ModeSend, ModeWait} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeNode{delay: func(int) time.Duration { return time.Millisecond }, answer: func(_ int, r *http.Request, _ string) (int, string, string) {
				if strings.HasSuffix(r.URL.Path, "/recv") {
					time.Sleep(receiverWait)
					return 204, "", ""
				}
				return 201, "", ""
			}}
			c := f.config(mode)
			c.RatePerSecond = 10
			ctx, cancel := context.WithTimeout(t.Context(), 5050*time.Millisecond)
			defer cancel()
			r, err := Run(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			f.all.Wait()
			last := r.Latencies[0]
			if mode == ModeWait {
				last = r.Latencies[1]
			}
			if last.Count != 51 || len(r.Failures) != 0 {
				t.Errorf("%s: %d, %v", mode, last.Count, r.Failures)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{delay: func(int) time.Duration { return time.Millisecond }}
		var seen []Progress
		c := f.config(ModeSend)
		c.RatePerSecond, c.Warmup, c.Duration = 10, 2500*time.Millisecond, 5*time.Second
		c.Progress = func(p Progress) { seen = append(seen, p) }
		r := f.measure(t, c)
		if len(seen) != 7 || !seen[1].WarmingUp || seen[3].WarmingUp || seen[6].Total != 7500*time.Millisecond {
			t.Errorf("%+v", seen)
		}
		near(t, "the rate", seen[4].MessagesPerSecond, 10)
		if len(r.Timeline) != 6 {
			t.Errorf("timeline %+v", r.Timeline)
		}
	})
}

func TestConfigs(t *testing.T) {
	f := &fakeNode{}
	for what, change := range map[string]func(*Config){
		"mode":       func(c *Config) { c.Mode = "sing" },
		"no node":    func(c *Config) { c.Nodes = nil },
		"a node":     func(c *Config) { c.Nodes = []string{"127.0.0.1:8080"} },
		"no queue":   func(c *Config) { c.Queues = nil },
		"clients":    func(c *Config) { c.Clients = 0 },
		"duration":   func(c *Config) { c.Duration = 0 },
		"rate":       func(c *Config) { c.RatePerSecond = -1 },
		"batch":      func(c *Config) { c.Batch = 1001 },
		"size":       func(c *Config) { c.SizeBytes = -1 },
		"no rate":    func(c *Config) { c.Mode = ModeWait },
		"no stamp":   func(c *Config) { c.Mode, c.RatePerSecond, c.SizeBytes = ModeWait, 1, stampBytes-1 },
		"no timeout": func(c *Config) { c.Timeout = 0 },
	} {
		c := f.config(ModeSend)
		change(&c)
		if _, err := Run(t.Context(), c); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// TestResultIsJSON pins the names that programs read.
func TestResultIsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{delay: func(int) time.Duration { return time.Millisecond }}
		c := f.config(ModeSend)
		c.Duration = time.Second
		b, err := json.Marshal(f.measure(t, c))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mode", "nodes", "clients", "sizeBytes", "keyed", "startedAt", "seconds", "messages", "messagesPerSecond",
			"operations", "operationsPerSecond", "failures", "missed", "latencies", "timeline"} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
	})
}
