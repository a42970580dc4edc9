package checker

import (
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// stories are histories and the rules that they break. A rule that is broken
// along with the wanted one may be named after it.
var stories = []struct {
	name string
	tell func(*story)
	want []string // the first must be found, others may be, none else
}{
	{"nothing happened", func(s *story) {}, nil},

	// Messages.
	{"sent, received, acked", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
	}, nil},
	{"acknowledged and lost", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
	}, []string{"messages/lost"}},
	{"unknown and absent", func(s *story) {
		s.send(10, 20, "", "a", 0, "")
	}, nil},
	{"unknown and there", func(s *story) {
		s.send(10, 20, "", "a", 500, "")
		s.received(30, "1-1", "a")
	}, nil},
	{"received, never settled, not there at the end", func(s *story) {
		s.send(10, 20, "", "a", 0, "")
		s.recv(30, 40, "1-1", "a")
	}, []string{"messages/lost"}},
	{"an ack of unknown outcome explains an absence", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.settle(50, 60, s.recv(30, 40, "1-1", "a"), history.Ack, 0)
	}, nil},
	{"a refused ack does not", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.settle(50, 60, s.recv(30, 40, "1-1", "a"), history.Ack, 503)
	}, []string{"messages/lost"}},
	{"refused and there", func(s *story) {
		s.send(10, 20, "", "a", 503, "")
		s.received(30, "1-1", "a")
	}, []string{"messages/refused-but-there"}},
	{"appended twice", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.received(70, "1-2", "a")
	}, []string{"messages/appended-twice"}},
	{"answered with another id", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-2", "a")
	}, []string{"messages/wrong-id", "messages/lost"}},
	{"one id, two payloads", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.send(30, 40, "", "b", 201, "1-1")
		s.received(50, "1-1", "a")
	}, []string{"messages/id-used-twice"}},
	{"a payload from nowhere", func(s *story) {
		s.received(30, "1-1", "ghost")
	}, []string{"messages/never-sent"}},
	{"a message of a removed queue", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.add(history.Op{Kind: history.QueueDelete, Queue: "q", DeleteMode: "force", Status: 202}, 30, 40)
		s.received(50, "1-1", "a")
	}, []string{"messages/of-a-removed-queue"}},
	{"removed with its queue", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.add(history.Op{Kind: history.QueueDelete, Queue: "q", DeleteMode: "force", Status: 202}, 30, 40)
	}, nil},

	// Keys.
	{"a retry is a hit", func(s *story) {
		s.send(10, 20, "k", "a", 0, "")
		s.send(30, 40, "k", "b", 200, "1-1")
		s.received(50, "1-1", "a")
		s.send(90, 95, "k", "c", 200, "1-1")
	}, nil},
	{"a key forgotten", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.send(30, 40, "k", "b", 201, "1-2")
		s.received(50, "1-1", "a")
		s.received(90, "1-2", "b")
	}, []string{"keys/appended-twice", "linearizable/no-order"}},
	{"both unknown attempts were appended", func(s *story) {
		s.send(10, 20, "k", "a", 0, "")
		s.send(30, 40, "k", "b", 0, "")
		s.received(50, "1-1", "a")
		s.received(90, "1-2", "b")
	}, []string{"keys/appended-twice", "linearizable/no-order"}},
	{"a new message after the window", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1").Queue = "short"
		s.send(3100, 3110, "k", "b", 201, "1-2").Queue = "short"
		s.received(3200, "1-1", "a")
		s.received(3300, "1-2", "b")
		for _, o := range s.h.Ops[len(s.h.Ops)-4:] {
			o.Queue = "short"
		}
	}, nil},
	{"a hit after the window", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1").Queue = "short"
		s.send(3100, 3110, "k", "b", 200, "1-1").Queue = "short"
		s.recv(3200, 3210, "1-1", "a").Queue = "short"
		s.settle(3220, 3230, s.h.Ops[len(s.h.Ops)-1], history.Ack, 204)
	}, []string{"keys/remembered-too-long"}},
	{"a duplicate of nothing", func(s *story) {
		s.send(10, 20, "k", "a", 0, "")
		s.send(30, 40, "k", "b", 200, "1-1")
	}, []string{"keys/never-stored", "linearizable/no-order"}},
	{"a duplicate of another key's", func(s *story) {
		s.send(10, 20, "other", "a", 201, "1-1")
		s.send(30, 40, "k", "b", 200, "1-1")
		s.received(50, "1-1", "a")
	}, []string{"keys/foreign-original", "linearizable/no-order"}},
	{"a duplicate whose payload is there", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.send(30, 40, "k", "b", 200, "1-1")
		s.received(50, "1-1", "a")
		s.received(90, "1-2", "b")
	}, []string{"messages/duplicate-but-there", "keys/appended-twice"}},
	{"in flight beside another send", func(s *story) {
		s.send(10, 50, "k", "a", 201, "1-1")
		s.send(20, 30, "k", "b", 409, "").ErrorKind = "dedup_in_flight"
		s.received(60, "1-1", "a")
	}, nil},
	{"in flight after everything was answered", func(s *story) {
		s.send(10, 20, "k", "a", 503, "")
		s.send(30, 40, "k", "b", 409, "").ErrorKind = "dedup_in_flight"
	}, []string{"keys/stuck-in-flight"}},
	{"in flight long after an unknown outcome", func(s *story) {
		s.send(10, 20, "k", "a", 0, "")
		s.send(30_000, 30_010, "k", "b", 409, "").ErrorKind = "dedup_in_flight"
	}, []string{"keys/stuck-in-flight"}},
	{"a changed window forgets", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.window(30, 40, 3600, 7200, 200)
		s.send(50, 60, "k", "b", 201, "1-2")
		s.received(70, "1-1", "a")
		s.received(110, "1-2", "b")
	}, nil},
	{"a changed window keeps a key", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.window(30, 40, 3600, 7200, 200)
		s.send(50, 60, "k", "b", 200, "1-1")
		s.received(70, "1-1", "a")
	}, []string{"keys/kept-by-window-change"}},
	{"a window set to what it is keeps", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.window(30, 40, 3600, 3600, 200)
		s.send(50, 60, "k", "b", 201, "1-2")
		s.received(70, "1-1", "a")
		s.received(110, "1-2", "b")
	}, []string{"keys/appended-twice"}},
	{"a change of unknown outcome excuses both", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.window(30, 40, 3600, 7200, 500)
		s.send(50, 60, "k", "b", 201, "1-2")
		s.received(70, "1-1", "a")
		s.received(110, "1-2", "b")
	}, nil},
	{"a new queue knows an old key", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.add(history.Op{Kind: history.QueueDelete, Queue: "q", DeleteMode: "force", Status: 202}, 30, 40)
		s.send(50, 60, "k", "b", 200, "1-1")
	}, []string{"keys/kept-by-new-queue"}},

	// Leases.
	{"held by two", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		one, two := s.recv(30, 40, "1-1", "a"), s.recv(50, 60, "1-1", "a")
		s.settle(70, 80, one, history.Nack, 204)
		s.settle(90, 95, two, history.Ack, 204)
	}, []string{"leases/held-twice", "leases/expired-early", "leases/retries-miscounted", "settles/replaced-lease-worked"}},
	{"delivered again after the lease ended", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.recv(30, 40, "1-1", "a")
		again := s.recv(5050, 5060, "1-1", "a")
		again.Retries = 1
		s.settle(5070, 5080, again, history.Ack, 204)
	}, nil},
	{"delivered again too early", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.recv(30, 40, "1-1", "a")
		again := s.recv(4000, 4010, "1-1", "a")
		again.Retries = 1
		s.settle(4020, 4030, again, history.Ack, 204)
	}, []string{"leases/expired-early", "leases/held-twice"}},
	{"a renewed lease ended early", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		lease := s.recv(30, 40, "1-1", "a")
		s.settle(4000, 4010, lease, history.Renew, 204).LeaseExpiresAt = began.Add(9005 * time.Millisecond)
		again := s.recv(6000, 6010, "1-1", "a")
		again.Retries = 1
		s.settle(6020, 6030, again, history.Ack, 204)
	}, []string{"leases/expired-early", "leases/held-twice"}},
	{"acked and delivered again", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.received(6000, "1-1", "a")
	}, []string{"leases/delivered-after-settle", "settles/settled-twice"}},
	{"an expired lease counts one retry", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.recv(30, 40, "1-1", "a")
		again := s.recv(6000, 6010, "1-1", "a")
		again.Retries = 2
		s.settle(6020, 6030, again, history.Ack, 204)
	}, []string{"leases/retries-miscounted"}},
	{"a lost receive may have counted too", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.recv(30, 40, "1-1", "a")
		s.add(history.Op{Kind: history.Recv, Queue: "q", Status: 0}, 5100, 5200)
		again := s.recv(11000, 11010, "1-1", "a")
		again.Retries = 2
		s.settle(11020, 11030, again, history.Ack, 204)
	}, nil},
	{"a release counts nothing", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.settle(50, 60, s.recv(30, 40, "1-1", "a"), history.Release, 204)
		again := s.recv(70, 80, "1-1", "a")
		again.Retries = 1
		s.settle(90, 95, again, history.Ack, 204)
	}, []string{"leases/retries-miscounted"}},
	{"delivered before the delay", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1").DelaySeconds = 2
		s.received(1000, "1-1", "a")
	}, []string{"leases/delivered-early"}},
	{"failed and delivered", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.settle(50, 60, s.recv(30, 40, "1-1", "a"), history.Fail, 204)
		s.received(70, "1-1", "a")
	}, []string{"leases/failed-but-delivered"}},
	{"failed, recovered, delivered", func(s *story) {
		send := s.send(10, 20, "", "a", 201, "1-1")
		s.settle(50, 60, s.recv(30, 40, "1-1", "a"), history.Fail, 204)
		s.byHandle(70, 80, send, "1-1", history.Recover, 204)
		s.received(90, "1-1", "a")
	}, []string{"settles/stale-handle-worked"}}, // the handle is the send's: stale by the delivery

	// Tokens.
	{"one lease, two settles", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		lease := s.recv(30, 40, "1-1", "a")
		s.settle(50, 60, lease, history.Nack, 204)
		s.settle(70, 80, lease, history.Ack, 204)
	}, []string{"settles/settled-twice"}},
	{"a settle that failed and its retry", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		lease := s.recv(30, 40, "1-1", "a")
		s.settle(50, 60, lease, history.Ack, 503)
		s.settle(70, 80, lease, history.Ack, 204)
	}, nil},
	{"an expired lease acks", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.settle(5100, 5110, s.recv(30, 40, "1-1", "a"), history.Ack, 204)
	}, []string{"settles/expired-lease-worked"}},
	{"a running lease is called stale", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		lease := s.recv(30, 40, "1-1", "a")
		s.settle(50, 60, lease, history.Ack, 410)
		again := s.recv(6000, 6010, "1-1", "a")
		again.Retries = 1
		s.settle(6020, 6030, again, history.Ack, 204)
	}, []string{"settles/valid-lease-refused"}},
	{"stale after an unknown ack", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		lease := s.recv(30, 40, "1-1", "a")
		s.settle(50, 60, lease, history.Ack, 0)
		s.settle(70, 80, lease, history.Ack, 410)
	}, nil},
	{"cancelled and delivered", func(s *story) {
		send := s.send(10, 20, "", "a", 201, "1-1")
		s.byHandle(30, 40, send, "1-1", history.Discard, 204)
		s.received(50, "1-1", "a")
	}, []string{"settles/delivered-after-discard"}},

	// Ack-and-send.
	{"moved", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.move(50, 60, s.recv(30, 40, "1-1", "a"), "b", 201, "2-1")
		s.recv(70, 80, "2-1", "b").Queue = "target"
		s.settle(90, 95, s.h.Ops[len(s.h.Ops)-1], history.Ack, 204)
	}, nil},
	{"acked, and sent nothing", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.move(50, 60, s.recv(30, 40, "1-1", "a"), "b", 201, "2-1")
	}, []string{"atomicity/acked-not-sent", "messages/lost"}},
	{"sent, and acked nothing", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.move(50, 60, s.recv(30, 40, "1-1", "a"), "b", 0, "")
		s.recv(70, 80, "2-1", "b").Queue = "target"
		s.settle(90, 95, s.h.Ops[len(s.h.Ops)-1], history.Ack, 204)
		again := s.recv(6000, 6010, "1-1", "a")
		again.Retries = 1
		s.settle(6020, 6030, again, history.Ack, 204)
	}, []string{"atomicity/sent-not-acked"}},
	{"an unknown move that did neither does not explain an absence", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.move(50, 60, s.recv(30, 40, "1-1", "a"), "b", 0, "")
	}, []string{"messages/lost"}},

	// Answers.
	{"a duplicate without a key", func(s *story) {
		s.send(10, 20, "", "a", 200, "1-1")
	}, []string{"answers/duplicate-without-key"}},
	{"a good call is called bad", func(s *story) {
		s.send(10, 20, "", "a", 400, "")
	}, []string{"answers/bad-request"}},
	{"no token, and taken", func(s *story) {
		s.add(history.Op{Kind: history.Ack, Queue: "q", Status: 204, Expect: "invalid_token"}, 10, 20)
	}, []string{"answers/bad-token-taken"}},
	{"a queue is gone", func(s *story) {
		s.send(10, 20, "", "a", 404, "").ErrorKind = "queue_not_found"
	}, []string{"answers/queue-lost"}},

	// Reads.
	{"counts as they were", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.stats(21, 29, 1, 0)
		s.received(30, "1-1", "a")
		s.stats(70, 80, 1, 1)
	}, nil},
	{"a read misses a send", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.stats(21, 29, 0, 0)
		s.received(30, "1-1", "a")
	}, []string{"reads/wrong-count"}},
	{"a read beside a send may miss it", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.stats(15, 29, 0, 0)
		s.received(30, "1-1", "a")
	}, nil},
	{"what nobody heard of being granted is given back", func(s *story) {
		s.add(history.Op{Kind: history.Recv, Queue: "q"}, 10, 20)
		s.stats(30, 40, 0, 0).Stats.ReleasedTotal = 1
	}, nil},
	{"a release of nothing", func(s *story) {
		s.stats(30, 40, 0, 0).Stats.ReleasedTotal = 1
	}, []string{"reads/wrong-count"}},
	{"a count falls", func(s *story) {
		s.send(10, 100, "", "a", 201, "1-1")
		s.stats(20, 30, 1, 0)
		s.stats(40, 50, 0, 0)
		s.received(110, "1-1", "a")
	}, []string{"reads/count-fell"}},
	{"sums do not agree", func(s *story) {
		s.stats(10, 20, 0, 0).Stats.Total = 1
	}, []string{"reads/states-do-not-add-up", "reads/totals-do-not-add-up"}},
	{"gone, and listed", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.add(history.Op{Kind: history.ReadItems, Queue: "q", Status: 200, Items: []history.Item{{ID: "1-1"}}}, 100, 110)
	}, []string{"reads/gone-but-listed"}},
	{"replicas differ", func(s *story) {
		for i, node := range []string{"n1", "n2"} {
			o := s.stats(int64(10+i*10), int64(15+i*10), 0, 0)
			o.Node, o.StaleRead, o.AppliedIndex = node, true, 7
			o.Stats.NackedTotal = int64(i)
		}
	}, []string{"reads/replicas-differ"}},

	// Health.
	{"not well again", func(s *story) {
		s.h.Phases = s.h.Phases[:2]
	}, []string{"health/not-well-again"}},
	{"not drained", func(s *story) {
		s.h.Phases = s.h.Phases[:5]
	}, []string{"health/not-drained"}},
	{"crashed", func(s *story) {
		s.h.Faults = append(s.h.Faults, history.Fault{Name: FaultPanic, Target: "n1", Detail: "panic: boom"})
	}, []string{"health/crashed"}},
	{"ended by itself", func(s *story) {
		s.h.Faults = append(s.h.Faults, history.Fault{Name: FaultExit, Target: "n1"})
	}, []string{"health/exited"}},
	{"ended by itself over a damaged file", func(s *story) {
		s.h.Header.Faults = []string{"bitflip-log"}
		s.h.Faults = append(s.h.Faults, history.Fault{Name: FaultExit, Target: "n1"})
	}, nil},
}

func TestStories(t *testing.T) {
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) { judge(t, c.tell, c.want) })
	}
}

// TestClockToleranceWidensTheRules: what faults do to clocks excuses what
// depends on real time.
func TestClockToleranceWidensTheRules(t *testing.T) {
	s := newStory()
	s.h.Header.ClockToleranceMs = 10_000
	s.send(10, 20, "", "a", 201, "1-1")
	s.settle(5100, 5110, s.recv(30, 40, "1-1", "a"), history.Ack, 204)
	if v := Violations(Check(s.h)); len(v) > 0 {
		t.Errorf("found %+v", v)
	}
}

func TestReportsAreBounded(t *testing.T) {
	s := newStory()
	for i := range int64(100) {
		s.send(10+i, 11+i, "", string(rune('A'+i)), 201, "1-"+string(rune('1'+i%9))+string(rune('0'+i/9)))
	}
	for _, r := range Check(s.h) {
		if len(r.Violations) > maxViolations {
			t.Errorf("%s reports %d violations", r.Checker, len(r.Violations))
		}
	}
}
