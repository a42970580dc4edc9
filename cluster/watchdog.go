package cluster

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// watchdog notices a disk that hangs under a living process. Raft's heartbeats
// do not need the disk, so that a leader whose disk hangs stays leader and every
// write waits. Past the first limit the watchdog has the node fall silent, so
// that the others elect somebody; past the second it gives the node up.
type watchdog struct {
	slow, dead time.Duration
	silence    func(bool)
	fatal      func(error)
	log        *slog.Logger

	mu      sync.Mutex
	pending map[*diskWrite]struct{}
	silent  bool
}

type diskWrite struct {
	what  string
	since time.Time
}

// begin notes a write that has started; the function it returns, that it ended.
func (w *watchdog) begin(what string) (done func()) {
	d := &diskWrite{what, time.Now()}
	w.mu.Lock()
	w.pending[d] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.pending, d)
		w.mu.Unlock()
	}
}

func (w *watchdog) oldest() (d *diskWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pending {
		if d == nil || p.since.Before(d.since) {
			d = p
		}
	}
	return d
}

func (w *watchdog) check(now time.Time) (dead bool) {
	d := w.oldest()
	age := time.Duration(0)
	if d != nil {
		age = now.Sub(d.since)
	}
	if age > w.dead {
		w.fatal(fmt.Errorf("%s has been hanging for %v: the disk does not answer. Check the disk, then start the node again", d.what, age.Round(time.Second)))
		return true
	}
	if hangs := age > w.slow; hangs != w.silent {
		w.silent = hangs
		if hangs {
			w.log.Error("the disk hangs: this node leaves the lead to others", "doing", d.what, "for", age)
		} else {
			w.log.Info("the disk answers again")
		}
		w.silence(hangs)
	}
	return false
}

func (w *watchdog) run(stop <-chan struct{}) {
	tick := time.NewTicker(min(w.slow/10, 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if w.check(now) {
				return
			}
		case <-stop:
			return
		}
	}
}
