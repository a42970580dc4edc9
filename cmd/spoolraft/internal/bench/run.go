package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// run is one measurement.
type run struct {
	config   *Config
	ctx      context.Context // its end ends every call
	nodes    []node
	seed     uint64 // tells this run's keys and messages from others'
	recorder *recorder

	start   time.Time // of the warm-up
	from    time.Time // of what counts
	until   time.Time // nothing is due from then on
	missed  atomic.Int64
	flowing sync.WaitGroup // clients that send

	sent, received atomic.Int64 // of ModeWait
}

// Run measures. It ends early, with what was measured until then, where ctx does.
func Run(ctx context.Context, config Config) (*Result, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if config.dial == nil {
		config.dial = dialTCP
	}
	r := &run{config: &config, seed: rand.Uint64(), start: time.Now()}
	for _, text := range config.Nodes {
		n, err := parseNode(text, config.Spool)
		if err != nil {
			return nil, err
		}
		r.nodes = append(r.nodes, n)
	}
	r.from = r.start.Add(config.Warmup)
	r.until = r.from.Add(config.Duration)
	r.recorder = newRecorder(r.seriesCount(), r.from)
	calls, endCalls := context.WithCancel(ctx)
	defer endCalls()
	r.ctx = calls

	watch := newWatch(r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.generate(endCalls)
	}()
	watch.until(done)
	return watch.result(), nil
}

func (r *run) seriesCount() int {
	n := len(series[r.config.Mode])
	if r.hasUncorrected() {
		n++
	}
	return n
}

// hasUncorrected reports whether there is a further series, of how long
// operations took once they had begun.
func (r *run) hasUncorrected() bool { return r.config.RatePerSecond > 0 && r.config.Mode != ModeWait }

// generate runs the clients to their end.
func (r *run) generate(endCalls context.CancelFunc) {
	senders, receivers := r.config.Clients, 0
	if r.config.Mode == ModeWait {
		senders, receivers = min(waitSenders, r.config.Clients), r.config.Clients
	}
	var all sync.WaitGroup
	for i := range receivers {
		c := r.newClient(i)
		all.Go(func() {
			defer c.close()
			c.receive()
		})
	}
	for i := range senders {
		c := r.newClient(i)
		r.flowing.Go(func() {
			defer c.close()
			c.loop(i, senders)
		})
	}
	r.flowing.Wait()
	if receivers > 0 {
		r.awaitReceived()
	}
	endCalls()
	all.Wait()
}

// grace is how long after the end the rest may take.
const grace = 10 * time.Second

// awaitReceived waits until those who wait have what was sent.
func (r *run) awaitReceived() {
	for end := r.until.Add(grace); r.received.Load() < r.sent.Load() && time.Now().Before(end) && r.ctx.Err() == nil; {
		r.sleep(10 * time.Millisecond)
	}
	r.missed.Add(r.sent.Load() - r.received.Load())
}

// loop does operations until the end of the run: as fast as they are answered, or
// as they are due.
func (c *client) loop(turn, clients int) {
	do := operations[c.run.config.Mode]
	if c.run.config.RatePerSecond == 0 {
		for now := time.Now(); now.Before(c.run.until) && c.ctx.Err() == nil; now = time.Now() {
			do(c, now)
		}
		return
	}
	interval := float64(time.Second) / c.run.config.RatePerSecond
	for n := turn; ; n += clients {
		due := c.run.start.Add(time.Duration(float64(n) * interval))
		if !due.Before(c.run.until) || c.ctx.Err() != nil {
			return
		}
		if ahead := time.Until(due); ahead > 0 {
			c.run.sleep(ahead)
		} else if time.Since(c.run.until) > grace {
			c.run.missed.Add(1)
			continue
		}
		begun := time.Now()
		do(c, due)
		if c.run.hasUncorrected() && c.ctx.Err() == nil {
			c.shard.latency(len(series[c.run.config.Mode]), due, time.Since(begun))
		}
	}
}

// sleep ends early with the run.
func (r *run) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}
