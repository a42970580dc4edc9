package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

const (
	// drainers is how many clients receive what is left of a queue.
	drainers = 4
	// readTries is how often the nodes' own states are read until all were
	// read at one point of the log.
	readTries = 5
)

// readAll reads every queue: by the cluster, and each node's own state.
func (r *run) readAll() {
	ctx := context.Background()
	for _, q := range r.Workload.Queues() {
		r.api.Stats(ctx, r.targets[0], Runner, q.Name, false)
		r.api.Messages(ctx, r.targets[len(r.targets)-1], Runner, q.Name, "", false, false)
		for range readTries {
			if r.readReplicas(ctx, q.Name) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// readReplicas reads each node's own state of a queue. It is true where
// another try would show nothing more.
func (r *run) readReplicas(ctx context.Context, queue string) bool {
	var first *history.Op
	same := true
	for _, t := range r.targets {
		o := r.api.Stats(ctx, t, Runner, queue, true)
		if o.Outcome != history.OK {
			return o.Status == 400 // the server does not have such reads
		}
		if first == nil {
			first = o
		}
		same = same && o.AppliedIndex == first.AppliedIndex
	}
	return same
}

// drainAll receives and acks everything. It is false where time ran out.
func (r *run) drainAll(ctx context.Context) bool {
	var busy sync.WaitGroup
	var left atomic.Int32
	for _, q := range r.Workload.Queues() {
		busy.Go(func() {
			if !r.drain(ctx, q.Name) {
				r.Log("the queue %s could not be emptied", q.Name)
				left.Add(1)
			}
		})
	}
	busy.Wait()
	return left.Load() == 0
}

// drain empties one queue: what is visible is received and acked, what has
// failed is recovered, what is leased or delayed is waited for.
func (r *run) drain(ctx context.Context, queue string) bool {
	for ctx.Err() == nil {
		var busy sync.WaitGroup
		for i := range drainers {
			busy.Go(func() { r.drainer(ctx, i, queue) })
		}
		busy.Wait()
		r.recoverFailed(ctx, queue)
		o := r.api.Stats(ctx, r.targets[0], Runner, queue, false)
		if o.Outcome == history.OK && (o.Stats == nil || o.Stats.Total == 0) {
			return true
		}
	}
	return false
}

// drainer receives and acks until nothing is visible.
func (r *run) drainer(ctx context.Context, number int, queue string) {
	for i := 0; ctx.Err() == nil; i++ {
		target := r.targets[(number+i)%len(r.targets)]
		got := r.api.Recv(context.Background(), target, Runner, queue, 1)
		if got.Outcome == history.Unknown {
			continue
		}
		if got.Outcome == history.Refused {
			time.Sleep(50 * time.Millisecond)
			return
		}
		if got.MessageID == "" {
			return
		}
		r.ackUntilKnown(ctx, number+i, client.LeaseOf(got))
	}
}

func (r *run) ackUntilKnown(ctx context.Context, first int, lease client.Token) {
	for i := first; ctx.Err() == nil; i++ {
		o := r.api.Settle(context.Background(), r.targets[i%len(r.targets)], Runner, client.SettleRequest{Kind: history.Ack, Token: lease})
		if o.Outcome == history.OK || o.Outcome == history.Refused && o.Status != 0 && o.Status != 503 {
			return
		}
	}
}

// recoverFailed makes failed messages visible again.
func (r *run) recoverFailed(ctx context.Context, queue string) {
	for _, page := range r.api.Messages(ctx, r.targets[0], Runner, queue, "failed", true, false) {
		for _, it := range page.Items {
			r.api.Settle(ctx, r.targets[0], Runner, client.SettleRequest{
				Kind:  history.Recover,
				Token: client.Token{Secret: it.Handle, Handle: true, IssuedBy: page.ID, MessageID: it.ID, Queue: queue},
			})
		}
	}
}
