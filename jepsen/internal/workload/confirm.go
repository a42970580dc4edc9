package workload

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// How long a client waits before it tries again.
const (
	backoff      = 100 * time.Millisecond // after a refusal that asks for a retry
	shortBackoff = 20 * time.Millisecond  // after an unknown outcome
)

// backOff waits as the answer asks. It is false where the run ended meanwhile.
func backOff(ctx context.Context, o *history.Op) bool {
	if o.Outcome == history.Unknown {
		return wait(ctx, shortBackoff)
	}
	return wait(ctx, backoff)
}

// keyed is a keyed send and the state of its retries.
type keyed struct {
	queue, key   string
	branch       string // tells senders of one key apart
	delaySeconds int
	attempts     int
	last         string // node asked last
	answer       *history.Op
}

// payload is that of the next attempt.
func (k *keyed) payload() string {
	return fmt.Sprintf("%s#%s%d", k.key, k.branch, k.attempts)
}

// again reports whether a client tries once more with the same key.
func again(o *history.Op) bool {
	switch {
	case o.Outcome == history.OK:
		return false
	case o.Outcome == history.Unknown, o.Status == 0, o.Status == http.StatusServiceUnavailable:
		return true
	default:
		return o.ErrorKind == "dedup_in_flight" || o.ErrorKind == "queue_busy" || o.ErrorKind == "rate_limited"
	}
}

// confirm sends until the answer is definite: at another node after every
// one that is not. It is false where ctx ended before that.
func (k *keyed) confirm(ctx context.Context, s *Session) bool {
	for ctx.Err() == nil {
		target := s.Elsewhere(k.last)
		if k.last == "" {
			target = s.Anywhere()
		}
		k.last = target.Node
		o := s.API.Send(ops(), target, s.Client, client.SendRequest{
			Queue: k.queue, Key: k.key, Payload: k.payload(), DelaySeconds: k.delaySeconds,
		})
		k.attempts++
		if !again(o) {
			k.answer = o
			return true
		}
		if !backOff(ctx, o) {
			return false
		}
	}
	return false
}

// ledger remembers keys: those that are still open, and some that are not.
type ledger struct {
	mu     sync.Mutex
	open   []*keyed
	closed []*keyed
	seen   int
}

// ledgerKeys bounds how many confirmed keys are remembered for resending.
const ledgerKeys = 2000

// add files the key under open or closed.
func (l *ledger) add(s *Session, k *keyed, confirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !confirmed {
		l.open = append(l.open, k)
		return
	}
	if k.answer.Outcome != history.OK {
		return
	}
	l.seen++
	if len(l.closed) < ledgerKeys {
		l.closed = append(l.closed, k)
	} else if i := s.Dice.IntN(l.seen); i < ledgerKeys {
		l.closed[i] = k // every key ever added has the same chance to be here
	}
}

// old returns a confirmed key as another sender of it would see it.
func (l *ledger) old(s *Session) *keyed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.closed) == 0 {
		return nil
	}
	k := l.closed[s.Dice.IntN(len(l.closed))]
	return &keyed{queue: k.queue, key: k.key, branch: s.name("again") + "."}
}

// take empties the list of open keys.
func (l *ledger) take() []*keyed {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.open
	l.open = nil
	return open
}

// finishers is how many clients settle open keys at the end.
const finishers = 4

// settleAll confirms what is open, and sends some confirmed keys once more.
func (l *ledger) settleAll(ctx context.Context, s *Session, resend int) {
	work := make(chan *keyed)
	var busy sync.WaitGroup
	for i := range finishers {
		f := s.fork(i)
		busy.Go(func() {
			for k := range work {
				l.add(f, k, k.confirm(ctx, f))
			}
		})
	}
	for _, k := range l.take() {
		work <- k
	}
	for i := range resend {
		f := s.fork(finishers + i)
		f.Unit = -int64(i) - 1 // a name of its own for each
		if k := l.old(f); k != nil {
			work <- k
		}
	}
	close(work)
	busy.Wait()
}
