package cluster

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// fakeQueue is what a receive would find.
type fakeQueue struct {
	code    fsm.Code
	visible int
	due     time.Time // when one more becomes visible
}

func (q *fakeQueue) receivable(string, string) (fsm.Code, int, int64, int64) {
	now := time.Now()
	code, visible, wake := q.code, q.visible, int64(0)
	if !q.due.IsZero() {
		if now.Before(q.due) {
			wake = q.due.UnixMilli()
		} else {
			visible++
		}
	}
	if code == fsm.CodeOK && visible == 0 {
		code = fsm.CodeEmpty
	}
	return code, visible, wake, now.UnixMilli()
}

// queueName knows queue 1 only.
func (q *fakeQueue) queueName(number uint64) (spool, queue string, ok bool) {
	return "s", "q", number == 1
}

func openWaits(q *fakeQueue) (*waits, func(n int) []*waiter, *atomic.Int64) {
	w := newWaits(q.receivable, q.queueName, time.Second)
	w.serve(true)
	woken := new(atomic.Int64)
	add := func(n int) (ws []*waiter) {
		for range n {
			ws = append(ws, w.add("s", "q", func(lost bool) {
				if !lost {
					woken.Add(1)
				}
			}))
		}
		return ws
	}
	return w, add, woken
}

func sent(n int) *fsm.Batch {
	return &fsm.Batch{Commands: make([]fsm.Command, 1, n)}
}

func TestWakesAsManyAsThereAreMessages(t *testing.T) {
	q := new(fakeQueue)
	w, add, woken := openWaits(q)
	ws := add(10)
	b := sent(1)
	b.Commands[0] = fsm.Command{Op: fsm.OpSend, Spool: "s", Queue: "q"}
	w.applied(b)
	if woken.Load() != 0 {
		t.Fatalf("%d woken for nothing", woken.Load())
	}
	q.visible = 3
	w.applied(b)
	w.applied(b)
	if woken.Load() != 3 {
		t.Fatalf("%d woken for 3 messages", woken.Load())
	}
	q.visible = 2 // the first got its message
	w.end(ws[0])
	if woken.Load() != 3 {
		t.Errorf("%d woken, although the other two have their turn", woken.Load())
	}
	w.end(ws[1]) // gone without asking
	if woken.Load() != 4 {
		t.Errorf("%d woken, although a turn is free", woken.Load())
	}
	b.Commands[0].Queue = "other"
	q.visible = 10
	w.applied(b)
	if woken.Load() != 4 {
		t.Error("another queue's message woke somebody")
	}
	b.Commands[0] = fsm.Command{Op: fsm.OpNack, Spool: "s", Token: fsm.Token{Queue: 1}}
	w.applied(b)
	if woken.Load() != 10 {
		t.Errorf("%d woken", woken.Load())
	}
	for _, x := range ws {
		w.end(x)
		w.end(x)
	}
	if len(w.queues) != 0 || len(w.events) != 0 {
		t.Errorf("%d queues and %d events are left", len(w.queues), len(w.events))
	}
}

func TestRefusalWakesAll(t *testing.T) {
	q := new(fakeQueue)
	w, add, woken := openWaits(q)
	add(5)
	q.code = fsm.CodeQueueNotFound
	w.applied(&fsm.Batch{Commands: []fsm.Command{{Op: fsm.OpDeleteQueue, Spool: "s", Queue: "q"}}})
	if woken.Load() != 5 {
		t.Errorf("%d woken", woken.Load())
	}
}

func TestAQueueThatDrainedTellsItsWaiters(t *testing.T) {
	q := new(fakeQueue)
	w, add, woken := openWaits(q)
	add(3)
	q.code = fsm.CodeQueueNotFound
	w.applied(&fsm.Batch{Commands: []fsm.Command{{Op: fsm.OpAck, Spool: "s", Token: fsm.Token{Queue: 2}}}})
	if woken.Load() != 3 {
		t.Errorf("%d woken", woken.Load())
	}
}

func TestLostLeadTellsWaiters(t *testing.T) {
	q := new(fakeQueue)
	w := newWaits(q.receivable, q.queueName, time.Second)
	lost := 0
	tell := func(l bool) {
		if l {
			lost++
		}
	}
	w.add("s", "q", tell)
	if lost != 1 {
		t.Error("a wait where nobody leads")
	}
	w.serve(true)
	x := w.add("s", "q", tell)
	w.serve(false)
	if lost != 2 {
		t.Error("a wait outlived the lead")
	}
	w.end(x)
}

func TestWakeByClockAndByTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{due: time.Now().Add(10 * time.Second)}
		w, add, woken := openWaits(q)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			w.run(stop)
		}()
		add(3)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if woken.Load() != 0 {
			t.Errorf("%d woken too early", woken.Load())
		}
		time.Sleep(1010 * time.Millisecond)
		synctest.Wait()
		if woken.Load() != 1 {
			t.Errorf("%d woken when one was due", woken.Load())
		}
		time.Sleep(time.Second) // the turn is over and the message still there
		synctest.Wait()
		if woken.Load() != 2 {
			t.Errorf("%d woken after the turn was over", woken.Load())
		}
		close(stop)
		<-done
	})
}
