package bench

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what was measured.
type Result struct {
	Mode          Mode      `json:"mode"`
	Nodes         int       `json:"nodes"`
	Queues        int       `json:"queues"`
	Clients       int       `json:"clients"`
	RatePerSecond float64   `json:"ratePerSecond,omitempty"` // that was asked for; none: a closed loop
	SizeBytes     int       `json:"sizeBytes"`
	Keyed         bool      `json:"keyed"`
	Batch         int       `json:"batch,omitempty"`
	Encoding      string    `json:"encoding,omitempty"`
	StartedAt     time.Time `json:"startedAt"`
	Seconds       float64   `json:"seconds"` // measured, until the last answer

	Messages            int64            `json:"messages"`
	MessagesPerSecond   float64          `json:"messagesPerSecond"`
	Operations          int64            `json:"operations"` // that succeeded
	OperationsPerSecond float64          `json:"operationsPerSecond"`
	Failures            map[string]int64 `json:"failures"` // by kind
	Missed              int64            `json:"missed"`   // due and never made, or sent and never received
	Latencies           []Latency        `json:"latencies"`
	Timeline            []Point          `json:"timeline"`
}

// Latency is one series, in milliseconds.
type Latency struct {
	Name   string  `json:"name"`
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P90Ms  float64 `json:"p90Ms"`
	P99Ms  float64 `json:"p99Ms"`
	P999Ms float64 `json:"p999Ms"`
	MaxMs  float64 `json:"maxMs"`

	curve []percentile
}

// percentile is a point of the curve of a series.
type percentile struct{ percent, ms float64 }

// Point is about a second of the measured time.
type Point struct {
	Second            float64 `json:"second"` // its end, from the start of the measured time
	MessagesPerSecond float64 `json:"messagesPerSecond"`
	P50Ms             float64 `json:"p50Ms"`
	P99Ms             float64 `json:"p99Ms"`
	MaxMs             float64 `json:"maxMs"`
	Failures          int64   `json:"failures"`
}

func millis(micros int64) float64 { return float64(micros) / 1000 }

func newLatency(name string, h *hdrhistogram.Histogram) Latency {
	at := h.ValueAtPercentile
	return Latency{
		Name: name, Count: h.TotalCount(), MeanMs: math.Round(h.Mean()) / 1000, P50Ms: millis(at(50)), P90Ms: millis(at(90)),
		P99Ms: millis(at(99)), P999Ms: millis(at(99.9)), MaxMs: millis(h.Max()), curve: curveOf(h),
	}
}

// curveOf has its points evenly spread over the nines: 90, 99, 99.9 and so on.
func curveOf(h *hdrhistogram.Histogram) (curve []percentile) {
	if h.TotalCount() == 0 {
		return nil
	}
	const step = 0.05
	nines := math.Log10(float64(h.TotalCount()))
	for x := 0.0; x < nines; x += step {
		p := 100 * (1 - math.Pow(10, -x))
		curve = append(curve, percentile{p, millis(h.ValueAtPercentile(p))})
	}
	return append(curve, percentile{100 * (1 - math.Pow(10, -nines)), millis(h.Max())})
}
