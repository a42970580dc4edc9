package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// fill sends many messages to a queue, at all nodes.
func (c *testCluster) fill(queue string, messages int, delaySeconds uint32) {
	c.t.Helper()
	const each = 1000
	nodes := c.others()
	var sending sync.WaitGroup
	for w := range nodes {
		sending.Go(func() {
			for first := w * each; first < messages; first += len(nodes) * each {
				cmds := make([]fsm.Command, min(each, messages-first))
				for i := range cmds {
					cmds[i] = fsm.Command{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: queue, DelaySeconds: delaySeconds, Payload: fmt.Sprint(first + i)}
				}
				for _, o := range nodes[w].DoAll(c.t.Context(), cmds) {
					if o.Err != nil || o.Result.Code != fsm.CodeOK {
						c.t.Errorf("fill %s: %+v", queue, o)
						return
					}
				}
			}
		})
	}
	sending.Wait()
}

// work has messages go all the way at every node until stop is closed, and
// returns how many did. Nothing may fail.
func (c *testCluster) work(queue string, stop <-chan struct{}) (through int64) {
	var done atomic.Int64
	var working sync.WaitGroup
	for _, n := range c.others() {
		working.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := n.pass(within(c.t), queue); err != nil {
					c.t.Errorf("%s: %v", name(n), err)
					return
				}
				done.Add(1)
			}
		})
	}
	working.Wait()
	return done.Load()
}

// pass sends, receives and acks.
func (n *Node) pass(ctx context.Context, queue string) error {
	do := func(c fsm.Command) (fsm.Result, error) {
		c.Spool = fsm.DefaultSpool
		r, err := n.Do(ctx, &c)
		if err == nil && r.Code != fsm.CodeOK {
			err = fmt.Errorf("command %d: code %d", c.Op, r.Code)
		}
		return r, err
	}
	if _, err := do(fsm.Command{Op: fsm.OpSend, Queue: queue, Payload: "x"}); err != nil {
		return err
	}
	r, err := n.Receive(ctx, fsm.DefaultSpool, queue, patience)
	if err != nil || r.Code != fsm.CodeOK {
		return fmt.Errorf("receive: code %d, %w", r.Code, err)
	}
	_, err = do(fsm.Command{Op: fsm.OpAck, Token: fsm.Token{Sort: fsm.Lease, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}})
	return err
}

// TestALargeQueueIsRemovedWhileOthersWork: the removal is one entry, which costs
// nobody an error, and leaves every node in the same state.
func TestALargeQueueIsRemovedWhileOthersWork(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "other")
	makeQueue(t, c.nodes["a"], "large")
	c.fill("large", 100_000, 0)
	if s := stats(t, c.nodes["b"], "large"); s.Total != 100_000 {
		t.Fatalf("%d messages", s.Total)
	}
	stop, through := make(chan struct{}), make(chan int64)
	go func() { through <- c.work("other", stop) }()
	if r := mustDo(t, c.nodes["c"], fsm.Command{Op: fsm.OpDeleteQueue, Queue: "large"}); r.Code != fsm.CodeOK {
		t.Errorf("remove: %+v", r)
	}
	makeQueue(t, c.nodes["a"], "large")
	if s := stats(t, c.nodes["b"], "large"); s.Total != 0 || s.Totals.Added != 0 {
		t.Errorf("the queue made again has %+v", s)
	}
	close(stop)
	if n := <-through; n == 0 {
		t.Error("nobody else worked")
	}
	c.settled()
}

// TestManyFallDueWhileOthersWork: as many messages as wait for the same moment
// become visible, and every receive that waits for one wakes.
func TestManyFallDueWhileOthersWork(t *testing.T) {
	long(t)
	t.Parallel()
	const due, waiting = 20_000, 300
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "other")
	makeQueue(t, c.nodes["a"], "due")
	c.fill("due", due, 5)
	stop, through := make(chan struct{}), make(chan int64)
	go func() { through <- c.work("other", stop) }()
	var receiving sync.WaitGroup
	for i := range waiting {
		receiving.Go(func() {
			n := c.nodes[c.names[i%len(c.names)]]
			if r, err := n.Receive(within(t), fsm.DefaultSpool, "due", patience); err != nil || r.Code != fsm.CodeOK {
				t.Errorf("receive %d: %+v, %v", i, r, err)
			}
		})
	}
	receiving.Wait()
	eventually(t, "all are visible", func() bool {
		s := stats(t, c.nodes["b"], "due")
		return s.Visible+s.Pending == due && s.Pending <= waiting
	})
	close(stop)
	if n := <-through; n == 0 {
		t.Error("nobody else worked")
	}
	c.settled()
}
