package workload

import (
	"context"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

const (
	longWindowSeconds  = 24 * 60 * 60
	shortWindowSeconds = 3
	// resendAtEnd is how many confirmed keys are sent once more at the end.
	resendAtEnd = 200
)

// keyedSend is the main workload: producers that retry, and consumers.
type keyedSend struct {
	long, short string
	keys        ledger
}

func newKeyedSend() *keyedSend { return &keyedSend{long: "keyed-long", short: "keyed-short"} }

// Queues implements Workload.
func (w *keyedSend) Queues() []Queue {
	return []Queue{
		{w.long, settings(3, 1000, longWindowSeconds)},
		{w.short, settings(3, 1000, shortWindowSeconds)},
	}
}

// Unit implements Workload. One client in three consumes.
func (w *keyedSend) Unit(ctx context.Context, s *Session) {
	queue := w.long
	if s.Dice.Chance(0.3) {
		queue = w.short
	}
	if s.Client%3 == 2 {
		consume(ctx, s, queue)
		return
	}
	switch s.Dice.Weighted(60, 25, 15) {
	case 0:
		k := &keyed{queue: queue, key: s.name("k")}
		if s.Dice.Chance(0.05) {
			k.delaySeconds = 1
		}
		w.keys.add(s, k, k.confirm(ctx, s))
	case 1:
		if k := w.keys.old(s); k != nil {
			k.confirm(ctx, s)
		}
	case 2:
		w.race(ctx, s, queue)
	}
}

// race sends one key at several nodes at once.
func (w *keyedSend) race(ctx context.Context, s *Session, queue string) {
	var racing sync.WaitGroup
	for i := range 2 + s.Dice.IntN(2) {
		f := s.fork(i)
		racing.Go(func() {
			k := &keyed{queue: queue, key: s.name("race"), branch: string(rune('a' + i))}
			w.keys.add(f, k, k.confirm(ctx, f))
		})
	}
	racing.Wait()
}

// Finish implements Workload.
func (w *keyedSend) Finish(ctx context.Context, s *Session) { w.keys.settleAll(ctx, s, resendAtEnd) }

// consume receives one message and mostly acks it.
func consume(ctx context.Context, s *Session, queue string) {
	got := s.API.Recv(ops(), s.Anywhere(), s.Client, queue, 1)
	if got.Outcome != history.OK || got.MessageID == "" {
		if got.Outcome != history.OK {
			backOff(ctx, got)
		}
		return
	}
	lease := client.LeaseOf(got)
	switch s.Dice.Weighted(85, 5, 5, 5) {
	case 0:
		settleUntilKnown(ctx, s, client.SettleRequest{Kind: history.Ack, Token: lease})
	case 1:
		settleUntilKnown(ctx, s, client.SettleRequest{Kind: history.Nack, Token: lease})
	case 2: // left to expire
	case 3:
		settleUntilKnown(ctx, s, client.SettleRequest{Kind: history.Ack, Token: lease})
		s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{Kind: history.Ack, Token: lease, Expect: "stale_token"})
	}
}

// settleTries bounds how often a consumer repeats a settle: its lease ends.
const settleTries = 5

// settleUntilKnown repeats a settle at other nodes while the outcome is not
// definite. The last answer is returned.
func settleUntilKnown(ctx context.Context, s *Session, r client.SettleRequest) *history.Op {
	target := s.Anywhere()
	var o *history.Op
	for range settleTries {
		o = s.API.Settle(ops(), target, s.Client, r)
		if !again(o) {
			break
		}
		if !backOff(ctx, o) {
			break
		}
		target = s.Elsewhere(target.Node)
	}
	return o
}

// leaseOver is how long a client sleeps to be sure that a lease of so many
// seconds has ended.
func leaseOver(seconds int) time.Duration {
	return time.Duration(seconds)*time.Second + 200*time.Millisecond
}
