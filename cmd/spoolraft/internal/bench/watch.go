package bench

import (
	"time"
)

// watch gathers what the clients record, second by second.
type watch struct {
	run      *run
	total    *tally
	second   *tally
	timeline []Point
	last     time.Time // until when it has been gathered
}

// Progress is how a run goes.
type Progress struct {
	Elapsed, Total    time.Duration // the warm-up included
	WarmingUp         bool
	MessagesPerSecond float64
	P50Ms, P99Ms      float64
	Failures          int64 // so far
}

func newWatch(r *run) *watch {
	n := r.seriesCount()
	return &watch{run: r, total: newTally(n), second: newTally(n), last: r.from}
}

// until gathers every second until all clients are done.
func (w *watch) until(done <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.gather()
			w.tell()
		case <-done:
			w.gather()
			return
		}
	}
}

const minPointSeconds = 0.2

func (w *watch) gather() {
	now := time.Now()
	if !now.After(w.run.from) {
		return
	}
	w.second.reset()
	w.run.recorder.collect(w.second)
	w.total.add(w.second)
	took := now.Sub(w.last).Seconds()
	w.last = now
	if took < minPointSeconds || w.second.messages == 0 && w.second.failed() == 0 && now.After(w.run.until) {
		return // too short to say a rate, or nothing came after the end
	}
	h := w.second.latencies[0]
	w.timeline = append(w.timeline, Point{
		Second: now.Sub(w.run.from).Seconds(), MessagesPerSecond: float64(w.second.messages) / took,
		P50Ms: millis(h.ValueAtPercentile(50)), P99Ms: millis(h.ValueAtPercentile(99)), MaxMs: millis(h.Max()), Failures: w.second.failed(),
	})
}

func (w *watch) tell() {
	if w.run.config.Progress == nil {
		return
	}
	p := Progress{
		Elapsed: time.Since(w.run.start), Total: w.run.until.Sub(w.run.start), WarmingUp: len(w.timeline) == 0,
		Failures: w.total.failed(),
	}
	if !p.WarmingUp {
		last := w.timeline[len(w.timeline)-1]
		p.MessagesPerSecond, p.P50Ms, p.P99Ms = last.MessagesPerSecond, last.P50Ms, last.P99Ms
	}
	w.run.config.Progress(p)
}

func (w *watch) result() *Result {
	c := w.run.config
	r := &Result{
		Mode: c.Mode, Nodes: len(c.Nodes), Queues: len(c.Queues), Clients: c.Clients, RatePerSecond: c.RatePerSecond,
		SizeBytes: c.SizeBytes, Keyed: c.Keyed, StartedAt: w.run.start.UTC(), Seconds: max(0, w.last.Sub(w.run.from).Seconds()),
		Messages: w.total.messages, Operations: w.total.operations, Failures: w.total.failures, Missed: w.run.missed.Load(),
		Timeline: w.timeline,
	}
	if c.Mode == ModeSendBatch {
		r.Batch, r.Encoding = c.Batch, "binary"
		if c.JSON {
			r.Encoding = "json"
		}
	}
	if r.Seconds > 0 {
		r.MessagesPerSecond, r.OperationsPerSecond = float64(r.Messages)/r.Seconds, float64(r.Operations)/r.Seconds
	}
	names := series[c.Mode]
	if w.run.hasUncorrected() {
		names = append(names[:len(names):len(names)], names[0]+", once begun")
	}
	for i, name := range names {
		r.Latencies = append(r.Latencies, newLatency(name, w.total.latencies[i]))
	}
	return r
}
