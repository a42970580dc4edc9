package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// pipeline moves messages through stages by ack-and-send.
type pipeline struct {
	stages []string
	keys   ledger
}

func newPipeline() *pipeline { return &pipeline{stages: []string{"stage-0", "stage-1", "stage-2"}} }

// Queues implements Workload.
func (w *pipeline) Queues() []Queue {
	var queues []Queue
	for _, name := range w.stages {
		queues = append(queues, Queue{name, settings(3, 1000, longWindowSeconds)})
	}
	return queues
}

// Unit implements Workload.
func (w *pipeline) Unit(ctx context.Context, s *Session) {
	last := len(w.stages) - 1
	switch stage := s.Dice.Weighted(30, 30, 30, 10); stage {
	case 0:
		k := &keyed{queue: w.stages[0], key: s.name("root")}
		w.keys.add(s, k, k.confirm(ctx, s))
	case last + 1:
		consume(ctx, s, w.stages[last])
	default:
		w.move(ctx, s, stage-1)
	}
}

// Finish implements Workload.
func (w *pipeline) Finish(ctx context.Context, s *Session) { w.keys.settleAll(ctx, s, 0) }

// Root names the message that entered the pipeline.
func Root(payload string) (root string, ok bool) {
	root, _, ok = strings.Cut(payload, "#")
	return root, ok && strings.HasPrefix(root, "root-")
}

// move takes a message one stage on.
func (w *pipeline) move(ctx context.Context, s *Session, stage int) {
	got := s.API.Recv(ops(), s.Anywhere(), s.Client, w.stages[stage], 1)
	if got.Outcome != history.OK || got.MessageID == "" {
		return
	}
	root, ok := Root(got.Payload)
	if !ok {
		return // a planted bug can bring something else; the checkers say what
	}
	r := client.SendRequest{Queue: w.stages[stage+1]}
	if s.Dice.Chance(0.5) {
		r.Key = fmt.Sprintf("%s.%d", root, stage+1)
	}
	target := s.Anywhere()
	for try := range settleTries {
		r.Payload = fmt.Sprintf("%s#%d.%s.%d", root, stage+1, s.name("move"), try)
		o := s.API.AckAndSend(ops(), target, s.Client, client.LeaseOf(got), r)
		if !again(o) {
			return
		}
		if !backOff(ctx, o) {
			return
		}
		target = s.Elsewhere(target.Node)
	}
}
