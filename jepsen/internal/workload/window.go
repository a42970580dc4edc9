package workload

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// window changes the window and makes the queue again while producers retry
// a small set of keys.
type window struct {
	queue string
	turn  chan struct{} // held by the one client that changes the queue
}

func newWindow() *window { return &window{queue: "window", turn: make(chan struct{}, 1)} }

// windowKeys is how many keys are in use at once.
const windowKeys = 15

// windows are those that the queue changes between; all outlast a run.
var windows = []int{3600, 7200, 14400}

// Queues implements Workload.
func (w *window) Queues() []Queue {
	return []Queue{{w.queue, settings(3, 1000, windows[0])}}
}

// Unit implements Workload. One unit in ten changes the queue, never two
// at a time.
func (w *window) Unit(ctx context.Context, s *Session) {
	switch s.Dice.Weighted(70, 20, 10) {
	case 0:
		k := &keyed{
			queue: w.queue, key: fmt.Sprintf("w-%d", s.Dice.IntN(windowKeys)), branch: s.name("w") + ".",
		}
		k.confirm(ctx, s)
	case 1:
		consume(ctx, s, w.queue)
	case 2:
		select {
		case w.turn <- struct{}{}:
			w.changeQueue(ctx, s)
			<-w.turn
		default:
		}
	}
}

// changeQueue sets another window, or the same, or makes the queue again.
func (w *window) changeQueue(ctx context.Context, s *Session) {
	now := s.API.GetQueue(ops(), s.Anywhere(), s.Client, w.queue)
	if now.Outcome != history.OK || now.Settings == nil || now.Settings.DedupWindowSeconds == nil {
		w.Finish(ctx, s)
		return
	}
	switch s.Dice.Weighted(50, 20, 30) {
	case 0:
		next := dice.Pick(s.Dice, windows)
		s.API.UpdateQueue(ops(), s.Anywhere(), s.Client, w.queue, history.Settings{DedupWindowSeconds: &next})
	case 1:
		s.API.UpdateQueue(ops(), s.Anywhere(), s.Client, w.queue, history.Settings{DedupWindowSeconds: now.Settings.DedupWindowSeconds})
	case 2:
		s.API.DeleteQueue(ops(), s.Anywhere(), s.Client, w.queue, "force", now.QueueUID)
		w.Finish(ctx, s)
	}
}

// Finish implements Workload: it makes sure that the queue exists.
func (w *window) Finish(ctx context.Context, s *Session) {
	for ctx.Err() == nil {
		got := s.API.GetQueue(ops(), s.Anywhere(), s.Client, w.queue)
		if got.Outcome == history.OK {
			return
		}
		if got.Status == http.StatusNotFound {
			s.API.CreateQueue(ops(), s.Anywhere(), s.Client, w.queue, w.Queues()[0].Settings)
		}
		if !wait(ctx, 2*backoff) {
			return
		}
	}
}
