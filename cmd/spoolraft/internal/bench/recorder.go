package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in microseconds, to three digits, up to ten minutes.
const (
	lowestMicros  = 1
	highestMicros = int64(10 * time.Minute / time.Microsecond)
	digits        = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestMicros, highestMicros, digits)
}

// tally is what was measured in some time.
type tally struct {
	latencies  []*hdrhistogram.Histogram // by series; the first is that of the operations
	operations int64                     // that succeeded as a whole
	messages   int64
	failures   map[string]int64 // by kind
}

func newTally(series int) *tally {
	t := &tally{failures: make(map[string]int64)}
	for range series {
		t.latencies = append(t.latencies, newHistogram())
	}
	return t
}

func (t *tally) add(o *tally) {
	for i, h := range o.latencies {
		t.latencies[i].Merge(h)
	}
	t.operations += o.operations
	t.messages += o.messages
	for kind, n := range o.failures {
		t.failures[kind] += n
	}
}

func (t *tally) reset() {
	for _, h := range t.latencies {
		h.Reset()
	}
	t.operations, t.messages = 0, 0
	clear(t.failures)
}

func (t *tally) failed() (n int64) {
	for _, k := range t.failures {
		n += k
	}
	return n
}

// recorder takes what the clients measure. It is cut into shards, so that clients
// rarely wait for each other, and few of them, since a histogram has to stay in
// the processor's cache.
type recorder struct {
	shards []*shard
	series int
}

type shard struct {
	mu sync.Mutex
	*tally
	from time.Time // what began before does not count
}

func newRecorder(series int, from time.Time) *recorder {
	r := &recorder{series: series}
	for range 2 * runtime.GOMAXPROCS(0) {
		r.shards = append(r.shards, &shard{tally: newTally(series), from: from})
	}
	return r
}

// of is the shard of a client.
func (r *recorder) of(client int) *shard { return r.shards[client%len(r.shards)] }

// collect moves what was measured since the last time to t.
func (r *recorder) collect(t *tally) {
	for _, s := range r.shards {
		s.mu.Lock()
		t.add(s.tally)
		s.tally.reset()
		s.mu.Unlock()
	}
}

// latency records how long something took for an operation that was due at start.
func (s *shard) latency(series int, start time.Time, took time.Duration) {
	if start.Before(s.from) {
		return
	}
	micros := min(max(took.Microseconds(), lowestMicros), highestMicros)
	s.mu.Lock()
	_ = s.latencies[series].RecordValue(micros) // it is within the bounds
	s.mu.Unlock()
}

// success counts an operation that began at start.
func (s *shard) success(start time.Time, messages int) {
	if start.Before(s.from) {
		return
	}
	s.mu.Lock()
	s.operations++
	s.messages += int64(messages)
	s.mu.Unlock()
}

// partly counts messages of an operation that did not succeed as a whole.
func (s *shard) partly(start time.Time, messages int) {
	if start.Before(s.from) {
		return
	}
	s.mu.Lock()
	s.messages += int64(messages)
	s.mu.Unlock()
}

func (s *shard) failure(start time.Time, kind string, n int) {
	if start.Before(s.from) {
		return
	}
	s.mu.Lock()
	s.failures[kind] += int64(n)
	s.mu.Unlock()
}
