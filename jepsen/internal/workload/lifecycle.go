package workload

import (
	"context"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// lifecycle walks messages through every state, with tokens of every age: in
// one queue leases end soon, in the other they outlast a failover.
type lifecycle struct{ brief, long stage }

// stage is a queue and its lease timeout.
type stage struct {
	queue        string
	leaseSeconds int
}

func newLifecycle() *lifecycle { return &lifecycle{stage{"life-brief", 1}, stage{"life-long", 6}} }

// Queues implements Workload.
func (w *lifecycle) Queues() []Queue {
	return []Queue{
		{w.brief.queue, settings(w.brief.leaseSeconds, 2, 0)},
		{w.long.queue, settings(w.long.leaseSeconds, 2, 0)},
	}
}

// Unit implements Workload.
func (w *lifecycle) Unit(ctx context.Context, s *Session) {
	in := w.brief
	if s.Dice.Chance(0.4) {
		in = w.long
	}
	switch s.Dice.Weighted(45, 34, 10, 3, 8) {
	case 0:
		in.send(ctx, s)
	case 1:
		in.work(ctx, s)
	case 2:
		in.handleFailed(ctx, s)
	case 3:
		in.badToken(s)
	case 4:
		s.API.Stats(ops(), s.Anywhere(), s.Client, in.queue, false)
	}
}

// Finish implements Workload. Nothing is open.
func (w *lifecycle) Finish(context.Context, *Session) {}

// send appends, and sometimes looks at the message or cancels it.
func (w stage) send(ctx context.Context, s *Session) {
	o := s.API.Send(ops(), s.Anywhere(), s.Client, client.SendRequest{
		Queue: w.queue, Payload: s.name("life"), DelaySeconds: s.Dice.Weighted(70, 30), WantHandle: true,
	})
	if o.Outcome != history.OK {
		return
	}
	handle := client.HandleOf(o)
	switch s.Dice.Weighted(70, 20, 10) {
	case 1:
		s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{Kind: history.Inspect, Token: handle})
	case 2:
		settleUntilKnown(ctx, s, client.SettleRequest{Kind: history.Discard, Token: handle})
		s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{Kind: history.Inspect, Token: handle})
	}
}

// work receives one message and does one of the things that can be done.
func (w stage) work(ctx context.Context, s *Session) {
	got := s.API.Recv(ops(), s.Anywhere(), s.Client, w.queue, 1)
	if got.Outcome != history.OK || got.MessageID == "" {
		return
	}
	lease := client.LeaseOf(got)
	settle := func(kind history.Kind, delaySeconds int) *history.Op {
		return settleUntilKnown(ctx, s, client.SettleRequest{Kind: kind, Token: lease, DelaySeconds: delaySeconds})
	}
	stale := func() {
		kinds := []history.Kind{history.Ack, history.Nack, history.Release, history.Fail, history.Discard, history.Renew}
		s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{
			Kind: dice.Pick(s.Dice, kinds), Token: lease, Expect: "stale_token",
		})
	}
	// Some hold the lease for most of its time, or for longer.
	if s.Dice.Chance(0.2) && !wait(ctx, s.Dice.Between(0, leaseOver(w.leaseSeconds))) {
		return
	}
	switch s.Dice.Weighted(25, 15, 15, 8, 8, 15, 10, 7) {
	case 0:
		settle(history.Ack, 0)
	case 1:
		settle(history.Nack, 0)
	case 2:
		settle(history.Release, s.Dice.Weighted(50, 50))
	case 3:
		settle(history.Fail, 0)
	case 4:
		settle(history.Discard, 0)
	case 5:
		if settle(history.Renew, 0).Outcome == history.OK {
			settle(history.Ack, 0)
		}
	case 6: // too late
		if wait(ctx, leaseOver(w.leaseSeconds)) {
			stale()
		}
		return
	case 7: // left to expire
		return
	}
	if s.Dice.Chance(0.3) {
		stale()
	}
}

// handleFailed recovers or discards a failed message, and uses its handle
// once more.
func (w stage) handleFailed(ctx context.Context, s *Session) {
	pages := s.API.Messages(ops(), s.Anywhere(), s.Client, w.queue, "failed", true, false)
	var failed []history.Item
	for _, p := range pages {
		failed = append(failed, p.Items...)
	}
	if len(failed) == 0 {
		return
	}
	item := dice.Pick(s.Dice, failed)
	handle := client.Token{
		Secret: item.Handle, Handle: true, IssuedBy: pages[len(pages)-1].ID, MessageID: item.ID, Queue: w.queue,
	}
	kind := history.Recover
	if s.Dice.Chance(0.2) {
		kind = history.Discard
	}
	settleUntilKnown(ctx, s, client.SettleRequest{Kind: kind, Token: handle})
	if s.Dice.Chance(0.3) {
		s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{Kind: kind, Token: handle})
	}
}

// badToken uses something that is no token.
func (w stage) badToken(s *Session) {
	s.API.Settle(ops(), s.Anywhere(), s.Client, client.SettleRequest{
		Kind:   dice.Pick(s.Dice, []history.Kind{history.Ack, history.Renew, history.Fail}),
		Token:  client.Token{Secret: s.name("no-token"), Queue: w.queue},
		Expect: "invalid_token",
	})
}
