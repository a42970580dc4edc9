package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// offered returns a call of keyed sends whose items are with the batcher.
func offered(b *batcher, number uint64, late func(fsm.Result), keys ...string) *call {
	c := newCall(len(keys), late)
	for slot, k := range keys {
		cmd := keyed("q", k, "")
		c.items[slot].cmd = &cmd
	}
	items := c.begin(callID{number: number})
	c.expect(items)
	b.submit(items...)
	return c
}

// attempt offers a command once.
func (n *Node) attempt(ctx context.Context, cmd *fsm.Command) (fsm.Result, error) {
	c := newCall(1, nil)
	c.items[0].cmd = cmd
	items := c.begin(callID{})
	c.expect(items)
	n.offer(items)
	c.wait(ctx)
	return c.outs[0].Result, c.outs[0].Err
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestWithdrawnIsNeverProposed(t *testing.T) {
	b := testBatcher()
	c := offered(b, 0, nil, "k")
	c.wait(ended())
	if !errors.Is(c.outs[0].Err, fsm.ErrNotApplied) {
		t.Fatalf("a queued command that was given up: %v", c.outs[0].Err)
	}
	if items, _ := b.take(); len(items) != 0 {
		t.Error("a withdrawn command was taken")
	}
	if len(b.keys.keys) != 0 {
		t.Error("its key stayed in flight")
	}
	late := make(chan fsm.Result, 1)
	again := offered(b, 0, func(r fsm.Result) { late <- r }, "k")
	if items, _ := b.take(); len(items) != 1 {
		t.Fatalf("took %d items", len(items))
	}
	again.wait(ended())
	if !errors.Is(again.outs[0].Err, fsm.ErrUnknown) {
		t.Errorf("a command that was taken and given up: %v", again.outs[0].Err)
	}
	again.items[0].settle(fsm.Result{Code: fsm.CodeOK}, nil)
	if r := <-late; r.Code != fsm.CodeOK {
		t.Errorf("late: %+v", r)
	}
}

// TestAbandonedCall gives each command of a call the outcome that it has by then.
func TestAbandonedCall(t *testing.T) {
	b := testBatcher()
	c := offered(b, 1, nil, "settled", "taken", "queued")
	c.items[0].take()
	c.items[0].settle(fsm.Result{Code: fsm.CodeDuplicate}, nil)
	c.items[1].take()
	c.wait(ended())
	c.items[1].settle(fsm.Result{}, nil)
	if o := c.outs[0]; o.Err != nil || o.Result.Code != fsm.CodeDuplicate {
		t.Errorf("settled: %+v", o)
	}
	if o := c.outs[1]; !errors.Is(o.Err, fsm.ErrUnknown) {
		t.Errorf("taken: %+v", o)
	}
	if o := c.outs[2]; !errors.Is(o.Err, fsm.ErrNotApplied) {
		t.Errorf("queued: %+v", o)
	}
}

// TestSiblingsShareAKey lets the commands of one call have the same key in flight,
// and nobody else while any of them is.
func TestSiblingsShareAKey(t *testing.T) {
	b, o := testBatcher(), new(outcomes)
	c := offered(b, 1, nil, "k", "k")
	if c.outs[0].Err != errOpen || c.outs[1].Err != errOpen {
		t.Fatalf("settled: %+v", c.outs)
	}
	refused := func(slot int) bool {
		b.submit(o.item(slot, keyed("q", "k", "")))
		return o.got[slot].Result.Code == fsm.CodeDedupInFlight
	}
	if other := offered(b, 2, nil, "k"); other.outs[0].Result.Code != fsm.CodeDedupInFlight || !refused(0) {
		t.Error("another call has the same key in flight")
	}
	c.items[0].leave()
	if !refused(1) {
		t.Error("the key was free while one of two was in flight")
	}
	c.items[1].leave()
	if refused(2) {
		t.Error("the key stayed in flight")
	}
}

func doAll(t *testing.T, n *Node, cs ...fsm.Command) []fsm.Outcome {
	t.Helper()
	outs := n.DoAll(within(t), cs)
	for i, o := range outs {
		if o.Err != nil {
			t.Fatalf("%s: command %d: %v", name(n), i, o.Err)
		}
	}
	return outs
}

func codes(outs []fsm.Outcome) (codes []fsm.Code) {
	for _, o := range outs {
		codes = append(codes, o.Result.Code)
	}
	return codes
}

// TestMixedCallThroughEveryNode gives a duplicate, new messages and bad ones to
// each node in one call, one key twice.
func TestMixedCallThroughEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	first := mustDo(t, c.nodes["a"], keyed("q", "old", ""))
	for at, n := range c.others() {
		fresh := "new-" + name(n)
		bad := keyed("q", "bad", "")
		bad.Spool = "no spool"
		outs := doAll(t, n, keyed("q", "old", ""), keyed("q", fresh, ""), bad, keyed("none", "x", ""), keyed("q", fresh, ""))
		got, want := codes(outs), []fsm.Code{fsm.CodeDuplicate, fsm.CodeOK, fsm.CodeInvalidCommand, fsm.CodeQueueNotFound, fsm.CodeDuplicate}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: codes %v, want %v", name(n), got, want)
				break
			}
		}
		if outs[0].Result.ID != first.ID || outs[4].Result.ID != outs[1].Result.ID {
			t.Errorf("%s: duplicates of %v and %v, want %v and %v", name(n), outs[0].Result.ID, outs[4].Result.ID, first.ID, outs[1].Result.ID)
		}
		if s := stats(t, n, "q"); s.Total != uint64(at+2) {
			t.Errorf("%s: %d messages", name(n), s.Total)
		}
	}
	if outs := c.nodes["a"].DoAll(within(t), nil); len(outs) != 0 {
		t.Errorf("no commands: %v", outs)
	}
	c.settled()
}

// TestCallOfManyEntries is larger than an entry and a frame may be, with its
// first key again at its end.
func TestCallOfManyEntries(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	payload := strings.Repeat("x", maxBatchBytes/3)
	for _, n := range c.others() {
		var cs []fsm.Command
		for i := range 20 {
			cs = append(cs, keyed("q", name(n)+key(i), payload))
		}
		cs = append(cs, cs[0])
		outs := doAll(t, n, cs...)
		for i := range 20 {
			if r := outs[i].Result; r.Code != fsm.CodeOK || (i > 0 && r.ID.Message != outs[i-1].Result.ID.Message+1) {
				t.Errorf("%s: message %d: %+v", name(n), i, r)
			}
		}
		if last := outs[20].Result; last.Code != fsm.CodeDuplicate || last.ID != outs[0].Result.ID {
			t.Errorf("%s: the first key again: %+v", name(n), last)
		}
	}
	c.settled()
}

// TestCallsThroughAHandover repeats keyed calls while the lead moves. Each key has
// one message in the end, the one that was answered.
func TestCallsThroughAHandover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	const calls, commands = 20, 10
	var wg sync.WaitGroup
	for _, n := range c.others() {
		wg.Go(func() {
			for i := range calls {
				cs := make([]fsm.Command, commands)
				for j := range cs {
					cs[j] = keyed("q", name(n)+key(i*commands+j), "")
				}
				for round := 0; len(cs) > 0; round++ {
					var unknown []fsm.Command
					for j, o := range n.DoAll(within(t), cs) {
						switch {
						case errors.Is(o.Err, fsm.ErrUnknown):
							unknown = append(unknown, cs[j])
						case o.Err != nil, o.Result.Code == fsm.CodeDuplicate && round == 0:
							t.Errorf("%s: %+v", name(n), o)
						}
					}
					cs = unknown
				}
			}
		})
	}
	for range 3 {
		old := c.leader()
		if err := old.handOver(within(t), anybody); err != nil {
			t.Error(err)
		}
		eventually(t, "another node leads", func() bool { return c.leader() != old })
	}
	wg.Wait()
	if s := stats(t, c.nodes["a"], "q"); s.Total != 3*calls*commands {
		t.Errorf("%d messages, want %d", s.Total, 3*calls*commands)
	}
	c.settled()
}
