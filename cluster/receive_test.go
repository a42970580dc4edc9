package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

type received struct {
	r   fsm.Result
	err error
}

// receiving starts a waiting receive.
func receiving(ctx context.Context, n *Node, queue string) <-chan received {
	ch := make(chan received, 1)
	go func() {
		r, err := n.Receive(ctx, fsm.DefaultSpool, queue, patience)
		ch <- received{r, err}
	}()
	return ch
}

// waiting waits until so many wait for the queue at the leader.
func waiting(t *testing.T, leader func() *Node, queue string, want int) {
	t.Helper()
	eventually(t, "the receives wait", func() bool {
		w := leader().waits
		w.mu.Lock()
		defer w.mu.Unlock()
		q := w.queues[queueKey{fsm.DefaultSpool, queue}]
		if q == nil {
			return want == 0
		}
		return q.fifo.Len() == want
	})
}

func fixed(n *Node) func() *Node { return func() *Node { return n } }

func mustReceive(t *testing.T, ch <-chan received) fsm.Result {
	t.Helper()
	got := <-ch
	if got.err != nil || got.r.Code != fsm.CodeOK {
		t.Fatalf("receive: %+v, %v", got.r, got.err)
	}
	return got.r
}

func TestWaitingReceiveWakesOnEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	for _, n := range c.others() {
		ch := receiving(t.Context(), n, "q")
		waiting(t, fixed(leader), "q", 1)
		sent := mustDo(t, c.nodes["b"], keyed("q", name(n), "for "+name(n)))
		r := mustReceive(t, ch)
		if r.ID != sent.ID || r.Payload != "for "+name(n) {
			t.Errorf("%s: received %+v", name(n), r)
		}
		waiting(t, fixed(leader), "q", 0)
	}
}

func TestEmptyReceiveLeavesNoEntry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	before := leader.Status().LastIndex
	for _, n := range c.others() {
		for _, wait := range []time.Duration{0, time.Millisecond} {
			if r, err := n.Receive(within(t), fsm.DefaultSpool, "q", wait); err != nil || r.Code != fsm.CodeEmpty {
				t.Errorf("%s: %+v, %v", name(n), r, err)
			}
		}
		if r, err := n.Receive(within(t), fsm.DefaultSpool, "none", patience); err != nil || r.Code != fsm.CodeQueueNotFound {
			t.Errorf("%s: missing queue: %+v, %v", name(n), r, err)
		}
	}
	if after := leader.Status().LastIndex; after != before {
		t.Errorf("the log grew from %d to %d", before, after)
	}
}

// TestWakeByTime wakes receives by a delay and by a lease that run out, with no
// other traffic.
func TestWakeByTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	patch := fsm.Patch{Set: fsm.FieldLeaseTimeout, To: fsm.Settings{LeaseTimeoutSeconds: 100}}
	mustDo(t, c.nodes["a"], fsm.Command{Op: fsm.OpCreateQueue, Queue: "q", Patch: patch})
	leader := c.leader()
	mustDo(t, c.nodes["a"], fsm.Command{Op: fsm.OpSend, Queue: "q", DelaySeconds: 100, Payload: "x"})
	for i := range 2 {
		first := receiving(t.Context(), c.nodes["b"], "q")
		waiting(t, fixed(leader), "q", 1)
		for _, s := range c.skew {
			s.Add(int64(101 * time.Second))
		}
		if r := mustReceive(t, first); int(r.Retries) != i {
			t.Errorf("delivery %d: %+v", i, r)
		}
	}
}

// TestExpiryWithoutTraffic has time advance in the log although nobody asks.
func TestExpiryWithoutTraffic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	patch := fsm.Patch{Set: fsm.FieldRetention, To: fsm.Settings{RetentionSeconds: 60}}
	mustDo(t, c.nodes["a"], fsm.Command{Op: fsm.OpCreateQueue, Queue: "q", Patch: patch})
	mustDo(t, c.nodes["a"], fsm.Command{Op: fsm.OpSend, Queue: "q", Payload: "x"})
	for _, s := range c.skew {
		s.Add(int64(61 * time.Second))
	}
	eventually(t, "the leader advances log time", func() bool { return !c.leader().replica.due() })
	c.settled()
	if s := stats(t, c.nodes["c"], "q"); s.Total != 0 || s.Totals.Expired != 1 {
		t.Errorf("stats: %+v", s)
	}
}

func TestWaitSurvivesFailover(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	survivor := c.nodes[c.otherNames(name(old))[0]]
	ch := receiving(t.Context(), survivor, "q")
	waiting(t, fixed(old), "q", 1)
	c.fabric.isolate(name(old), c.otherNames(name(old))...)
	next := c.leader(name(old))
	waiting(t, fixed(next), "q", 1)
	retryUntilKnown(t, next, keyed("q", "k", "x"))
	mustReceive(t, ch)
}

// TestWaitSurvivesHandover keeps a receive that waits at the leader itself.
func TestWaitSurvivesHandover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	ch := receiving(t.Context(), old, "q")
	waiting(t, fixed(old), "q", 1)
	if err := old.handOver(within(t), anybody); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another node leads", func() bool { return c.leader() != old })
	waiting(t, fixed(c.leader()), "q", 1)
	retryUntilKnown(t, old, keyed("q", "k", "x"))
	mustReceive(t, ch)
}

// TestGoneReceiver gives no lease to a client that went away, whether it was
// waiting or already being granted a message.
func TestGoneReceiver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	for _, n := range c.others() {
		ctx, cancel := context.WithCancel(t.Context())
		ch := receiving(ctx, n, "q")
		waiting(t, fixed(leader), "q", 1)
		cancel()
		if got := <-ch; !errors.Is(got.err, fsm.ErrNotApplied) {
			t.Errorf("%s: gone while waiting: %+v, %v", name(n), got.r, got.err)
		}
		waiting(t, fixed(leader), "q", 0)
	}
	mustDo(t, leader, keyed("q", "k", "x"))
	for _, n := range c.others() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.take(ctx, fsm.Command{Op: fsm.OpReceive, Spool: fsm.DefaultSpool, Queue: "q"}); err == nil {
			t.Errorf("%s: a client that has gone received", name(n))
		}
		eventually(t, "the message is visible again", func() bool {
			s := stats(t, n, "q")
			return s.Visible == 1 && s.Pending == 0
		})
	}
}

// TestReceiveMany grants messages of several sizes through every node, wakes for
// one where there are none, and gives back what its client is not there to take.
func TestReceiveMany(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	large := strings.Repeat("x", frameChunkBytes)
	for _, n := range c.others() {
		for i, payload := range []string{"small", large, large, "last"} {
			mustDo(t, leader, keyed("q", name(n)+key(i), payload))
		}
		var got []string
		for _, want := range []int{2, 2} { // the second large one does not fit
			r, err := n.ReceiveMany(within(t), fsm.DefaultSpool, "q", 100, frameChunkBytes+100, 0)
			if err != nil || r.Code != fsm.CodeOK || len(r.Deliveries) != want {
				t.Fatalf("%s: %d deliveries, code %d, %v", name(n), len(r.Deliveries), r.Code, err)
			}
			for _, d := range r.Deliveries {
				got = append(got, d.Payload)
				ack := fsm.Token{Sort: fsm.Lease, Queue: d.ID.Queue, Message: d.ID.Message, Moves: d.Moves}
				mustDo(t, n, fsm.Command{Op: fsm.OpAck, Token: ack})
			}
		}
		if !slices.Equal(got, []string{"small", large, large, "last"}) {
			t.Errorf("%s: received other payloads", name(n))
		}

		before := leader.Status().LastIndex
		if r, err := n.ReceiveMany(within(t), fsm.DefaultSpool, "q", 100, 100, 0); err != nil || r.Code != fsm.CodeEmpty {
			t.Errorf("%s: from an empty queue: %+v, %v", name(n), r, err)
		}
		if after := leader.Status().LastIndex; after != before {
			t.Errorf("%s: an empty receive left an entry", name(n))
		}
		woken := make(chan int)
		go func() {
			r, _ := n.ReceiveMany(t.Context(), fsm.DefaultSpool, "q", 100, 100, patience)
			woken <- len(r.Deliveries)
		}()
		waiting(t, fixed(leader), "q", 1)
		mustDo(t, leader, keyed("q", name(n)+"wake", ""))
		if got := <-woken; got != 1 {
			t.Errorf("%s: %d deliveries after a wait", name(n), got)
		}

		mustDo(t, leader, keyed("q", name(n)+"one", ""))
		mustDo(t, leader, keyed("q", name(n)+"two", ""))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		many := fsm.Command{Op: fsm.OpReceiveMany, Spool: fsm.DefaultSpool, Queue: "q", Count: 100}
		if _, err := n.take(ended, many); err == nil {
			t.Errorf("%s: a client that has gone received", name(n))
		}
		for left := 2; left > 0; { // one after the other, where they come back so
			r, err := n.ReceiveMany(within(t), fsm.DefaultSpool, "q", 100, 100, patience)
			if err != nil || r.Code != fsm.CodeOK {
				t.Fatalf("%s: %d messages do not come back: %+v, %v", name(n), left, r, err)
			}
			left -= len(r.Deliveries)
		}
	}
}

// TestReceiveWhoseContextEnds tells a receive that got nothing from one of which
// nobody knows whether it got something.
func TestReceiveWhoseContextEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range c.others() {
		if r, err := n.Receive(ended, fsm.DefaultSpool, "q", patience); !errors.Is(err, fsm.ErrNotApplied) || errors.Is(err, fsm.ErrUnknown) {
			t.Errorf("%s: ended before it began: %+v, %v", name(n), r, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		r, err := n.Receive(ctx, fsm.DefaultSpool, "q", patience)
		cancel()
		if !errors.Is(err, fsm.ErrNotApplied) || errors.Is(err, fsm.ErrUnknown) {
			t.Errorf("%s: ended while it waited: %+v, %v", name(n), r, err)
		}
		if r, err := n.Receive(t.Context(), fsm.DefaultSpool, "q", 10*time.Millisecond); err != nil || r.Code != fsm.CodeEmpty {
			t.Errorf("%s: waited in vain: %+v, %v", name(n), r, err)
		}
	}
	mustDo(t, leader, keyed("q", "k", ""))
	follower := c.nodes[c.otherNames(name(leader))[0]]
	c.fabric.cut(name(leader), name(follower)) // the grant does not come back
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if r, err := follower.Receive(ctx, fsm.DefaultSpool, "q", patience); !errors.Is(err, fsm.ErrUnknown) {
		t.Errorf("asked and not answered: %+v, %v", r, err)
	}
	c.fabric.heal()
	c.leader()
}

// TestReceiveWaitsOutAFullDisk has a message fall due for a receive that waits,
// while the leader takes no writes.
func TestReceiveWaitsOutAFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := newCluster(t, 1, func(_ string, cfg *Config) {
		cfg.tuning.minFreeBytes = 1 << 20
		cfg.tuning.diskFree = func(string) (uint64, error) {
			if full.Load() {
				return 0, nil
			}
			return 1 << 30, nil
		}
	})
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	mustDo(t, n, fsm.Command{Op: fsm.OpSend, Queue: "q", DelaySeconds: 100, Payload: "x"})
	ch := receiving(t.Context(), n, "q")
	waiting(t, fixed(n), "q", 1)
	full.Store(true)
	n.disk.check()
	c.skew["a"].Add(int64(101 * time.Second))
	waiting(t, fixed(n), "q", 0) // it has been woken and asks, in vain
	full.Store(false)
	n.disk.check()
	mustReceive(t, ch)
}

// TestManyWaiters wakes as many as there are messages.
func TestManyWaiters(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	const waiters = 300
	got := make(chan received, waiters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range waiters {
		n := c.nodes[c.names[i%3]]
		go func() {
			r, err := n.Receive(ctx, fsm.DefaultSpool, "q", patience)
			got <- received{r, err}
		}()
	}
	waiting(t, fixed(leader), "q", waiters)
	seen := make(map[fsm.MessageID]bool)
	for i := range 30 {
		mustDo(t, c.nodes["b"], keyed("q", key(i), ""))
	}
	for range 30 {
		g := <-got
		if g.err != nil || g.r.Code != fsm.CodeOK || seen[g.r.ID] {
			t.Fatalf("received %+v, %v", g.r, g.err)
		}
		seen[g.r.ID] = true
	}
	waiting(t, fixed(leader), "q", waiters-30)
	cancel()
	for range waiters - 30 {
		if g := <-got; g.err == nil {
			t.Fatalf("received %+v", g.r)
		}
	}
	waiting(t, fixed(leader), "q", 0)
}
