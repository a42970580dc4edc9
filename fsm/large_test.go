package fsm_test

import (
	"fmt"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// fillLarge makes a queue with many messages, whose leases last a second and whose
// keys are remembered.
func fillLarge(r *rig, name string, delaySeconds uint32) {
	r.t.Helper()
	r.create(name, func(s *fsm.Settings) { s.LeaseTimeoutSeconds, s.DedupWindowSeconds, s.MaxRetries = 1, 60, 0 })
	for sent := 0; sent < many; {
		var cs []fsm.Command
		for ; sent < many && len(cs) < 4096; sent++ {
			c := keyedSend(name, fmt.Sprint(sent))
			c.Spool, c.DelaySeconds = fsm.DefaultSpool, delaySeconds
			cs = append(cs, c)
		}
		r.batch(cs)
	}
}

// batch applies commands as one entry, all of which must succeed.
func (r *rig) batch(cs []fsm.Command) []fsm.Result {
	r.t.Helper()
	r.index++
	results := r.m.Apply(r.index, fsm.Batch{NowMs: r.nowMs, Commands: cs})
	for i, got := range results {
		if got.Code != fsm.CodeOK {
			r.t.Fatalf("command %d of %d: %+v", i, len(cs), got)
		}
	}
	return results
}

// unswept are the counts as the machine holds them, whatever is overdue.
func (r *rig) unswept(queue string) fsm.Stats {
	r.t.Helper()
	a := r.m.Image().Read(fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Names: []string{queue}, Limit: 1})
	if len(a.Queues) != 1 {
		r.t.Fatalf("no stats of %s", queue)
	}
	return a.Queues[0].Stats
}

// TestALargeQueueIsRemovedAtOnce: it leaves nothing behind in the sums of the
// spool, nor in the digest, and others do not notice.
func TestALargeQueueIsRemovedAtOnce(t *testing.T) {
	r := newRig(t)
	r.create("other", nil)
	r.ok(send("other", "before"))
	fillLarge(r, "large", 0)
	image := r.m.Image()
	caps := fsm.Caps{MaxMessages: 3, MaxDedupKeys: 1, MaxDataBytes: 100}
	r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: caps})
	r.want(fsm.CodeSpoolFull, send("other", "no room"))
	r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "large"})
	r.ok(send("other", "after"))
	r.create("large", func(s *fsm.Settings) { s.DedupWindowSeconds = 60 })
	if got := r.ok(keyedSend("large", "1")); got.ID.Message != 1 {
		t.Errorf("the first message of the queue made again is %+v", got.ID)
	}
	r.want(fsm.CodeSpoolFull, send("other", "full again"))
	if s := r.stats("large"); s.Total != 1 || s.DedupKeys != 1 {
		t.Errorf("the queue made again has %+v", s)
	}
	left := 0
	for q := range image.Queues() {
		for range q.Messages() {
			left++
		}
	}
	if left != many+1 {
		t.Errorf("an image from before has %d messages, want %d", left, many+1)
	}
}

// TestManyFallDueAtOnce: messages that become visible together need nothing done
// to them; leases and keys that end together are taken care of bit by bit, and
// commands meanwhile see them as ended.
func TestManyFallDueAtOnce(t *testing.T) {
	r := newRig(t)
	fillLarge(r, "q", 10)
	r.want(fsm.CodeEmpty, recv("q"))
	r.nowMs += 10_000
	r.do(fsm.Command{Op: fsm.OpReceive, Queue: "none"})
	if s := r.unswept("q"); s.Visible != many || s.Delayed != 0 {
		t.Fatalf("when the delays are over, %d are visible and %d delayed", s.Visible, s.Delayed)
	}
	var last fsm.Result
	for left := many; left > 0; {
		var cs []fsm.Command
		for ; left > 0 && len(cs) < 4096; left-- {
			c := recv("q")
			c.Spool = fsm.DefaultSpool
			cs = append(cs, c)
		}
		results := r.batch(cs)
		last = results[len(results)-1]
	}

	fsm.SetSweepLimit(r.m, 1000)
	r.nowMs += 1000
	for batches := uint64(1); ; batches++ {
		r.index++
		r.m.Apply(r.index, fsm.Batch{NowMs: r.nowMs})
		s := r.unswept("q")
		if s.Pending+s.Failed != many || s.Failed != min(batches*1000, many) {
			t.Fatalf("after %d batches %d leases run and %d messages have failed", batches, s.Pending, s.Failed)
		}
		if batches == 10 {
			break
		}
	}
	// What has ended is over for commands, also where the sweep is far from it.
	r.want(fsm.CodeStaleToken, withLease(fsm.OpAck, last))
	r.nowMs += 60_000
	r.ok(keyedSend("q", fmt.Sprint(many-1)))
	if s := r.unswept("q"); s.Pending == 0 {
		t.Error("the sweep has taken care of everything at once")
	}
}
