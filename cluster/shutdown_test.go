package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestShutdownHandsOver stops the leader while others send. Nobody gets an
// unknown outcome, and the lead changes by handover, not by timeout.
func TestShutdownHandsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	old := c.leader()
	term := old.Status().Term
	var wg sync.WaitGroup
	var sent atomic.Int64
	stop := make(chan struct{})
	for w, n := range c.others(name(old)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				cmd := keyed("q", name(n)+key(w*100000+i), "")
				r, err := n.Do(context.Background(), &cmd)
				if err != nil || r.Code != fsm.CodeOK {
					t.Errorf("send: %+v, %v", r, err)
					return
				}
				sent.Add(1)
			}
		})
	}
	eventually(t, "sends flow", func() bool { return sent.Load() > 20 })
	c.stop(name(old))
	next := c.leader()
	after := sent.Load()
	eventually(t, "sends flow again", func() bool { return sent.Load() > after+20 })
	close(stop)
	wg.Wait()
	if got := next.Status().Term; got != term+1 {
		t.Errorf("term %d, want %d: the lead was not handed over", got, term+1)
	}
	cmd := keyed("q", "k", "")
	if _, err := old.Do(t.Context(), &cmd); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("a stopped node answered %v", err)
	}
	if _, err := old.Receive(t.Context(), fsm.DefaultSpool, "q", patience); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("a stopped node answered %v", err)
	}
	if old.Ready() == nil {
		t.Error("a stopped node is ready")
	}
	if s := stats(t, next, "q"); s.Total != uint64(sent.Load()) {
		t.Errorf("%d messages, %d were sent", s.Total, sent.Load())
	}
}

// TestShutdownEndsWaits answers the receives that wait at a node that stops.
func TestShutdownEndsWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	for _, n := range c.others() {
		if n == leader {
			continue
		}
		ch := receiving(t.Context(), n, "q")
		waiting(t, fixed(leader), "q", 1)
		c.stop(name(n))
		if got := <-ch; !errors.Is(got.err, fsm.ErrClosed) {
			t.Errorf("%s: %+v, %v", name(n), got.r, got.err)
		}
		c.start(name(n))
		c.leader()
	}
}
