package checker

import (
	"slices"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// story writes a history by hand. Times are milliseconds since its start.
type story struct{ h *history.History }

// began is the start of every story.
var began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// newStory has the queue "q" with leases of 5 s, 2 retries and a window of an
// hour, and "short" with a window of 3 s; they are drained at the end.
func newStory() *story {
	s := &story{&history.History{Header: history.Header{StartedAt: began, Nodes: []string{"n1", "n2", "n3"}}}}
	for name, window := range map[string]int{"q": 3600, "short": 3, "target": 3600} {
		lease, retries := 5, 2
		s.add(history.Op{Kind: history.QueueCreate, Queue: name, Status: 201, Settings: &history.Settings{
			LeaseTimeoutSeconds: &lease, MaxRetries: &retries, DedupWindowSeconds: &window,
		}}, 0, 1)
	}
	for i, name := range []string{history.PhaseRun, history.PhaseHeal, history.PhaseRetry, history.PhaseRead, history.PhaseDrain, history.PhaseEnd} {
		s.h.Phases = append(s.h.Phases, history.Phase{Name: name, At: ms(int64(i))})
	}
	return s
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

// add appends an operation; the outcome follows the status, 0 being unknown.
func (s *story) add(o history.Op, start, end int64) *history.Op {
	o.ID = int64(len(s.h.Ops) + 1)
	o.Start, o.End = ms(start), ms(end)
	switch {
	case o.Outcome != "":
	case o.Status == 0 || o.Status == 500:
		o.Outcome = history.Unknown
	case o.Status < 300:
		o.Outcome = history.OK
	default:
		o.Outcome = history.Refused
	}
	s.h.Ops = append(s.h.Ops, &o)
	return &o
}

// send is a keyed send to q where the key is not empty.
func (s *story) send(start, end int64, key, payload string, status int, id string) *history.Op {
	return s.add(history.Op{Kind: history.Send, Queue: "q", Key: key, Payload: payload, Status: status, MessageID: id}, start, end)
}

// recv is a delivery whose lease was granted at its end.
func (s *story) recv(start, end int64, id, payload string) *history.Op {
	o := s.add(history.Op{Kind: history.Recv, Queue: "q", Status: 200, MessageID: id, Payload: payload}, start, end)
	o.LeaseExpiresAt = began.Add(time.Duration(end)*time.Millisecond + 5*time.Second)
	return o
}

// settle does something with a lease.
func (s *story) settle(start, end int64, lease *history.Op, kind history.Kind, status int) *history.Op {
	o := s.add(history.Op{Kind: kind, Queue: lease.Queue, TokenOp: lease.ID, TokenMessage: lease.MessageID, Status: status}, start, end)
	if status == 410 {
		o.ErrorKind = "stale_token"
	}
	return o
}

// byHandle does something with a handle that the operation issued.
func (s *story) byHandle(start, end int64, issuer *history.Op, id string, kind history.Kind, status int) *history.Op {
	return s.add(history.Op{Kind: kind, Queue: "q", TokenOp: issuer.ID, TokenMessage: id, ByHandle: true, Status: status}, start, end)
}

// move is an ack-and-send from q to target.
func (s *story) move(start, end int64, lease *history.Op, payload string, status int, id string) *history.Op {
	return s.add(history.Op{
		Kind: history.AckAndSend, Queue: "target", TokenOp: lease.ID, TokenMessage: lease.MessageID,
		Payload: payload, Status: status, MessageID: id,
	}, start, end)
}

// stats is a read with sums that agree.
func (s *story) stats(start, end int64, added, acked int64) *history.Op {
	left := added - acked
	return s.add(history.Op{Kind: history.ReadStats, Queue: "q", Status: 200, Stats: &history.Stats{
		Total: left, Visible: left, AddedTotal: added, AckedTotal: acked,
	}}, start, end)
}

// window is a change of the window that answers ok, by a client that read the
// old one just before.
func (s *story) window(start, end int64, from, to int, status int) *history.Op {
	s.add(history.Op{Kind: history.QueueGet, Client: 3, Queue: "q", Status: 200, Settings: &history.Settings{DedupWindowSeconds: &from}}, start-2, start-1)
	return s.add(history.Op{Kind: history.QueueUpdate, Client: 3, Queue: "q", Status: status, Settings: &history.Settings{DedupWindowSeconds: &to}}, start, end)
}

// received is what a good end of a message looks like.
func (s *story) received(start int64, id, payload string) {
	s.settle(start+20, start+30, s.recv(start, start+10, id, payload), history.Ack, 204)
}

// judge has the story checked.
func judge(t *testing.T, tell func(*story), want []string) {
	t.Helper()
	s := newStory()
	tell(s)
	found := map[string]Violation{}
	for _, v := range Violations(Check(s.h)) {
		found[v.Checker+"/"+v.Rule] = v
	}
	if len(want) > 0 {
		if _, ok := found[want[0]]; !ok {
			t.Errorf("%s was not found", want[0])
		}
	}
	for rule, v := range found {
		if !slices.Contains(want, rule) {
			t.Errorf("found %s: %s (%v)", rule, v.Text, v.Ops)
		}
	}
}
