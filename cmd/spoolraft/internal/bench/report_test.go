package bench

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func someResult() *Result {
	h := newHistogram()
	for i := range int64(10_000) {
		_ = h.RecordValue(1000 + i)
	}
	return &Result{
		Mode: ModeSendBatch, Nodes: 3, Queues: 1, Clients: 16, SizeBytes: 256, Keyed: true, Batch: 100, Encoding: "binary",
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 10, Messages: 1_234_500, MessagesPerSecond: 123_450, Operations: 12_345,
		OperationsPerSecond: 1234.5, Failures: map[string]int64{"503": 7, "409 <b>": 1200}, Latencies: []Latency{newLatency("send-batch", h)},
		Timeline: []Point{{Second: 1, MessagesPerSecond: 100_000, P50Ms: 6, P99Ms: 11, MaxMs: 12}, {Second: 2, MessagesPerSecond: 140_000, P50Ms: 5, P99Ms: 9, MaxMs: 30}},
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := someResult().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `send-batch of 100, binary · 16 clients · 256 bytes, keyed · 3 nodes · 1 queue
Closed loop: each client waits for its answer before it calls again.

123,450 messages/s in 1,234 calls/s (1,234,500 in 10.0 s)

LATENCY, ms  P50   P90   P99   P99.9  MAX   COUNT
send-batch   6.00  10.0  10.9  11.0   11.0  10,000

FAILURES  
409 <b>   1,200
503       7
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

// TestPage draws three plots and asks nothing of anybody.
func TestPage(t *testing.T) {
	for _, r := range []*Result{someResult(), {Mode: ModeCycle, Latencies: make([]Latency, 1+len(series[ModeCycle]))}} {
		var b strings.Builder
		if err := r.WritePage(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if strings.Count(page, "<svg") != 3 || !strings.HasSuffix(page, "</html>\n") || strings.Contains(page, "<b>") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s", page)
		}
		if foreign := regexp.MustCompile(`(?i)https?:|src=|@import|url\(|<script|<link`).FindString(page); foreign != "" {
			t.Errorf("the page has %q", foreign)
		}
		for _, class := range regexp.MustCompile(`polyline class="(s\d)"`).FindAllStringSubmatch(page, -1) {
			if !strings.Contains(page, "."+class[1]+" { stroke: var(--"+class[1]+"); }") {
				t.Errorf("the line %s has no colour", class[1])
			}
		}
		// Every point is within the drawing.
		for _, xy := range regexp.MustCompile(`(-?[0-9.]+),(-?[0-9.]+)`).FindAllString(strings.Join(regexp.MustCompile(`points="[^"]*"`).FindAllString(page, -1), " "), -1) {
			if strings.Contains(xy, "-") {
				t.Errorf("a point at %s", xy)
			}
		}
	}
}

func TestScales(t *testing.T) {
	for most, want := range map[float64]string{0: "0 0.5 1", 1: "0 0.25 0.5 0.75 1", 9: "0 1 2 3 4 5 6 7 8 9", 123_450: "0 25,000 50,000 75,000 100,000 125,000"} {
		_, ticks := linear(most, 0, 1)
		var texts []string
		for _, tick := range ticks {
			texts = append(texts, tick.Text)
		}
		if got := strings.Join(texts, " "); most != 0 && got != want {
			t.Errorf("to %v: %s, want %s", most, got, want)
		}
	}
	s, _ := logarithmic(0.3, 40, 0, 1)
	if s.least != 0.1 || s.most != 100 || s.at(0.1) != 0 || s.at(100) != 1 {
		t.Errorf("%+v", s)
	}
}
