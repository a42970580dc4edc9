package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestNothingLostNothingTwice sends through every node while links are cut and
// leaders change. A sender retries what is unknown with the same key. In the end
// every key that was confirmed, and no other, is one message.
func TestNothingLostNothingTwice(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.tuning.leaderWait = 2 * time.Second })
	makeQueue(t, c.nodes["a"], "q")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	confirmed, refused := make(map[string]fsm.MessageID), make(map[string]bool)
	for w := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := key(w*1_000_000 + i)
				id, ok := sendUntilKnown(t, c.nodes[c.names[(w+i)%3]], k)
				mu.Lock()
				if ok {
					confirmed[k] = id
				} else {
					refused[k] = true
				}
				mu.Unlock()
			}
		})
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		victim := c.names[random.IntN(3)]
		switch random.IntN(4) {
		case 0:
			c.fabric.isolate(victim, c.otherNames(victim)...)
		case 1:
			for _, o := range c.otherNames(victim) {
				c.fabric.cut(o, victim)
			}
		case 2:
			for _, o := range c.otherNames(victim) {
				c.fabric.cut(victim, o)
			}
		case 3:
			_ = c.nodes[victim].handOver(t.Context(), anybody)
		}
		time.Sleep(time.Duration(500+random.IntN(1500)) * time.Millisecond)
		c.fabric.heal()
		c.leader()
	}
	close(stop)
	wg.Wait()
	c.settled()
	if len(confirmed) < 10 {
		t.Fatalf("only %d sends were confirmed", len(confirmed))
	}
	if s := stats(t, c.leader(), "q"); s.Total != uint64(len(confirmed)) || s.DedupKeys != s.Total {
		t.Errorf("%d messages and %d keys, %d were confirmed, %d refused", s.Total, s.DedupKeys, len(confirmed), len(refused))
	}
	for k, id := range confirmed {
		if r := retryUntilKnown(t, c.leader(), keyed("q", k, "")); r.Code != fsm.CodeDuplicate || r.ID != id {
			t.Fatalf("%s: %+v, was %v", k, r, id)
		}
	}
}

// sendUntilKnown retries until the send is confirmed, or was refused at its very
// first try, when it left no trace.
func sendUntilKnown(t *testing.T, n *Node, key string) (id fsm.MessageID, confirmed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for unknown := false; ; {
		try, stop := context.WithTimeout(ctx, 3*time.Second)
		cmd := keyed("q", key, "")
		r, err := n.Do(try, &cmd)
		stop()
		switch {
		case err == nil && (r.Code == fsm.CodeOK || r.Code == fsm.CodeDuplicate):
			return r.ID, true
		case ctx.Err() != nil:
			t.Errorf("%s: %+v, %v", key, r, err)
			return id, false
		case errors.Is(err, fsm.ErrNotApplied) && !unknown:
			return id, false
		default:
			unknown = true
		}
	}
}
