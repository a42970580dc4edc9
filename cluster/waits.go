package cluster

import (
	"container/heap"
	"container/list"
	"math"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// waits is who waits for a message, on the leader. Waiting changes nothing and
// promises nothing: who is woken asks for a message like anybody else, but only
// as many are woken as there are messages. A woken one has its turn until it has
// asked, or is gone, or the turn has lasted too long.
type waits struct {
	receivable func(spool, queue string) (code fsm.Code, visible int, wakeAtMs, nowMs int64)
	queueName  func(number uint64) (spool, queue string, ok bool)
	turn       time.Duration

	mu     sync.Mutex
	open   bool
	queues map[queueKey]*waitQueue
	events eventHeap // queues by when they need a look without a command
	kick   chan struct{}
}

type queueKey struct{ spool, queue string }

// waitQueue is one queue that somebody waits for.
type waitQueue struct {
	key    queueKey
	fifo   list.List // of *waiter
	turns  list.List // of *waiter, woken, the oldest first
	wakeAt time.Time // when something becomes visible by itself; zero: never
	nextAt time.Time // key in events
	heapAt int       // index in events
}

// waiter is one who waits, or has its turn.
type waiter struct {
	wake func(lost bool) // called once, without locks; lost: ask the next leader

	q     *waitQueue
	in    *list.List // fifo or turns; nil: gone
	elem  *list.Element
	since time.Time // of the turn
}

func newWaits(receivable func(string, string) (fsm.Code, int, int64, int64), queueName func(uint64) (string, string, bool), turn time.Duration) *waits {
	return &waits{receivable: receivable, queueName: queueName, turn: turn, queues: make(map[queueKey]*waitQueue), kick: make(chan struct{}, 1)}
}

// serve opens and closes the waits with the leadership.
func (w *waits) serve(open bool) {
	w.mu.Lock()
	w.open = open
	var lost []*waiter
	for _, q := range w.queues {
		for e := q.fifo.Front(); e != nil; e = e.Next() {
			lost = append(lost, e.Value.(*waiter))
		}
		for _, l := range [...]*list.List{&q.fifo, &q.turns} {
			for e := l.Front(); e != nil; e = e.Next() {
				e.Value.(*waiter).in = nil
			}
		}
	}
	w.queues = make(map[queueKey]*waitQueue)
	w.events = nil
	w.mu.Unlock()
	for _, x := range lost {
		x.wake(true)
	}
}

// add has somebody wait. wake may be called before add returns.
func (w *waits) add(spool, queue string, wake func(lost bool)) *waiter {
	x := &waiter{wake: wake}
	w.mu.Lock()
	if !w.open {
		w.mu.Unlock()
		wake(true)
		return x
	}
	k := queueKey{spool, queue}
	q := w.queues[k]
	if q == nil {
		q = &waitQueue{key: k, heapAt: -1}
		w.queues[k] = q
	}
	x.q, x.in = q, &q.fifo
	x.elem = q.fifo.PushBack(x)
	woken := w.look(q)
	w.mu.Unlock()
	wakeAll(woken)
	return x
}

// end takes somebody out, whether still waiting or with its turn.
func (w *waits) end(x *waiter) {
	w.mu.Lock()
	var woken []*waiter
	if x.in != nil {
		x.in.Remove(x.elem)
		x.in = nil
		woken = w.look(x.q)
	}
	w.mu.Unlock()
	wakeAll(woken)
}

func wakeAll(woken []*waiter) {
	for _, x := range woken {
		x.wake(false)
	}
}

// look wakes whose turn it is in a queue, and notes when to look again.
func (w *waits) look(q *waitQueue) (woken []*waiter) {
	now := time.Now()
	for e := q.turns.Front(); e != nil && now.Sub(e.Value.(*waiter).since) >= w.turn; e = q.turns.Front() {
		e.Value.(*waiter).in = nil
		q.turns.Remove(e)
	}
	q.wakeAt = time.Time{}
	if q.fifo.Len() > 0 {
		code, visible, wakeAtMs, nowMs := w.receivable(q.key.spool, q.key.queue)
		switch code {
		case fsm.CodeOK:
		case fsm.CodeEmpty:
			visible = 0
			if wakeAtMs > 0 {
				q.wakeAt = now.Add(time.Duration(wakeAtMs-nowMs) * time.Millisecond)
			}
		default:
			visible = math.MaxInt // everybody hears of the refusal
		}
		for q.turns.Len() < visible && q.fifo.Len() > 0 {
			x := q.fifo.Remove(q.fifo.Front()).(*waiter)
			x.in, x.elem, x.since = &q.turns, q.turns.PushBack(x), now
			woken = append(woken, x)
		}
	}
	w.schedule(q, now)
	return woken
}

// maxLook bounds how long a clock that was set forward stays unnoticed.
const maxLook = 250 * time.Millisecond

// schedule notes when the queue needs a look although nothing happens, and
// forgets a queue that nobody waits for.
func (w *waits) schedule(q *waitQueue, now time.Time) {
	next := time.Time{}
	if q.fifo.Len() > 0 {
		if !q.wakeAt.IsZero() {
			next = now.Add(max(min(q.wakeAt.Sub(now), maxLook), time.Millisecond))
		}
		if e := q.turns.Front(); e != nil {
			if over := e.Value.(*waiter).since.Add(w.turn); next.IsZero() || over.Before(next) {
				next = over
			}
		}
	}
	if q.fifo.Len() == 0 && q.turns.Len() == 0 {
		delete(w.queues, q.key)
	}
	q.nextAt = next
	switch {
	case next.IsZero() && q.heapAt >= 0:
		heap.Remove(&w.events, q.heapAt)
	case next.IsZero():
	case q.heapAt >= 0:
		heap.Fix(&w.events, q.heapAt)
	default:
		heap.Push(&w.events, q)
	}
	if !next.IsZero() && w.events[0] == q {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// applied looks at the queues in which a batch may have made something visible,
// or made waiting pointless.
func (w *waits) applied(b *fsm.Batch) {
	w.mu.Lock()
	if len(w.queues) == 0 {
		w.mu.Unlock()
		return
	}
	touched := make(map[*waitQueue]struct{})
	touch := func(spool, queue string) {
		if q := w.queues[queueKey{spool, queue}]; q != nil {
			touched[q] = struct{}{}
		}
	}
	for i := range b.Commands {
		c := &b.Commands[i]
		switch c.Op {
		case fsm.OpSend, fsm.OpUpdateQueue, fsm.OpDeleteQueue:
			touch(c.Spool, c.Queue)
			continue
		case fsm.OpAckAndSend:
			touch(c.Spool, c.Queue)
		}
		spool, queue, ok := w.queueName(c.Token.Queue)
		switch {
		case c.Op == fsm.OpSetCaps, !ok && c.Token.Queue != 0:
			// The whole spool, or a queue that has gone with its last message.
			for k := range w.queues {
				if k.spool == c.Spool {
					touch(k.spool, k.queue)
				}
			}
		case c.Op == fsm.OpNack, c.Op == fsm.OpRelease, c.Op == fsm.OpRecover:
			touch(spool, queue)
		}
	}
	var woken []*waiter
	for q := range touched {
		woken = append(woken, w.look(q)...)
	}
	w.mu.Unlock()
	wakeAll(woken)
}

// run looks at queues whose time has come.
func (w *waits) run(stop <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		var woken []*waiter
		now := time.Now()
		for len(w.events) > 0 && !w.events[0].nextAt.After(now) {
			woken = append(woken, w.look(w.events[0])...)
		}
		wait := time.Hour
		if len(w.events) > 0 {
			wait = time.Until(w.events[0].nextAt)
		}
		w.mu.Unlock()
		wakeAll(woken)
		timer.Reset(max(wait, time.Millisecond))
		select {
		case <-timer.C:
		case <-w.kick:
		case <-stop:
			return
		}
	}
}

// eventHeap orders queues by nextAt.
type eventHeap []*waitQueue

func (h eventHeap) Len() int           { return len(h) }
func (h eventHeap) Less(i, j int) bool { return h[i].nextAt.Before(h[j].nextAt) }
func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push implements heap.Interface.
func (h *eventHeap) Push(x any) {
	q := x.(*waitQueue)
	q.heapAt = len(*h)
	*h = append(*h, q)
}

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	*h = old[:len(old)-1]
	q.heapAt = -1
	return q
}
