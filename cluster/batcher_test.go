package cluster

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// outcomes is a sink that keeps what it is told.
type outcomes struct {
	mu  sync.Mutex
	got map[int]fsm.Outcome
}

func (o *outcomes) settle(slot int, r fsm.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.got == nil {
		o.got = make(map[int]fsm.Outcome)
	}
	if _, twice := o.got[slot]; twice {
		panic("settled twice")
	}
	o.got[slot] = fsm.Outcome{Result: r, Err: err}
}

func (o *outcomes) item(slot int, cmd fsm.Command) *item { return &item{cmd: &cmd, to: o, slot: slot} }

// testBatcher serves, but its loop does not run.
func testBatcher() *batcher {
	b := newBatcher()
	b.full = func() bool { return false }
	b.serve(true)
	return b
}

func TestBatcherKeysInFlight(t *testing.T) {
	b, o := testBatcher(), new(outcomes)
	first := o.item(0, keyed("q", "k", ""))
	b.submit(first, o.item(1, keyed("q", "k", "")), o.item(2, keyed("other", "k", "")), o.item(3, fsm.Command{Op: fsm.OpSend, Queue: "q"}))
	b.submit(o.item(4, fsm.Command{Op: fsm.OpAckAndSend, Spool: fsm.DefaultSpool, Queue: "q", Keyed: true, Key: fsm.FingerprintOf("k")}))
	for _, slot := range []int{1, 4} {
		if got := o.got[slot]; got.Err != nil || got.Result.Code != fsm.CodeDedupInFlight {
			t.Errorf("the same key again, slot %d: %+v", slot, got)
		}
	}
	if len(o.got) != 2 {
		t.Fatalf("settled: %+v", o.got)
	}
	items, _ := b.take()
	if len(items) != 3 || items[0] != first {
		t.Fatalf("took %d items", len(items))
	}
	b.submit(o.item(5, keyed("q", "k", "")))
	if o.got[5].Result.Code != fsm.CodeDedupInFlight {
		t.Errorf("while it is proposed: %+v", o.got[5])
	}
	// The lead is lost and won again before the outcome is known.
	b.serve(false)
	b.serve(true)
	b.submit(o.item(6, keyed("q", "k", "")))
	if _, settled := o.got[6]; settled {
		t.Error("a key outlived the leadership")
	}
	first.leave()
	b.submit(o.item(7, keyed("q", "k", "")))
	if o.got[7].Result.Code != fsm.CodeDedupInFlight {
		t.Error("the end of an old proposal freed the key of a new one")
	}
}

func TestBatcherRefuses(t *testing.T) {
	b, o := testBatcher(), new(outcomes)
	b.serve(false)
	b.submit(o.item(0, keyed("q", "k", "")))
	if o.got[0].Err != errNotLeader {
		t.Errorf("without the lead: %+v", o.got[0])
	}
	b.serve(true)
	queued := o.item(1, keyed("q", "k", ""))
	b.submit(queued)
	b.serve(false)
	if o.got[1].Err != errNotLeader {
		t.Errorf("queued when the lead was lost: %+v", o.got[1])
	}
	b.serve(true)
	b.full = func() bool { return true }
	b.submit(o.item(2, keyed("q", "k", "")))
	if !errors.Is(o.got[2].Err, fsm.ErrNotApplied) {
		t.Errorf("on a full disk: %+v", o.got[2])
	}
	b.full = func() bool { return false }
	for i := range maxQueueCommands {
		b.submit(o.item(10+i, fsm.Command{Op: fsm.OpSend}))
	}
	b.submit(o.item(3, fsm.Command{Op: fsm.OpSend}))
	if o.got[3].Err != errBusy {
		t.Errorf("beyond the queue: %+v", o.got[3])
	}
	b.serve(true)
	big := strings.Repeat("x", maxQueueBytes)
	b.submit(o.item(4, fsm.Command{Op: fsm.OpSend, Payload: big}), o.item(5, fsm.Command{Op: fsm.OpSend, Payload: "x"}))
	if _, settled := o.got[4]; settled || o.got[5].Err != errBusy {
		t.Errorf("beyond the bytes: %+v", o.got[5].Err)
	}
}

func TestBatcherBoundsAnEntry(t *testing.T) {
	b, o := testBatcher(), new(outcomes)
	half := strings.Repeat("x", maxBatchBytes/2)
	for i := range 4 {
		b.submit(o.item(i, fsm.Command{Op: fsm.OpSend, Payload: half}))
	}
	b.submit(o.item(4, fsm.Command{Op: fsm.OpSend, Payload: half + half + half}))
	for i := range maxBatchCommands + 1 {
		b.submit(o.item(5+i, fsm.Command{Op: fsm.OpSend}))
	}
	var sizes []int
	for {
		items, _ := b.take()
		if len(items) == 0 {
			break
		}
		sizes = append(sizes, len(items))
	}
	// Each half with its overhead is over the half: they go alone; the large one
	// goes alone; then as many small ones as an entry takes.
	want := []int{1, 1, 1, 1, 1, maxBatchCommands, 1}
	if len(sizes) != len(want) {
		t.Fatalf("entries of %v commands, want %v", sizes, want)
	}
	for i := range want {
		if sizes[i] != want[i] {
			t.Errorf("entries of %v commands, want %v", sizes, want)
		}
	}
	if b.bytes != 0 || !b.idleAfter(t) {
		t.Errorf("%d bytes are left", b.bytes)
	}
}

func (b *batcher) idleAfter(t *testing.T) bool {
	t.Helper()
	b.take()
	return b.idle()
}

func TestWellFormed(t *testing.T) {
	good := keyed("q", "k", "x")
	if !wellFormed(&good) {
		t.Error("a good command was refused")
	}
	for what, spoil := range map[string]func(*fsm.Command){
		"op 0":       func(c *fsm.Command) { c.Op = 0 },
		"unknown op": func(c *fsm.Command) { c.Op = 200 },
		"spool":      func(c *fsm.Command) { c.Spool = "a b" },
		"queue":      func(c *fsm.Command) { c.Queue = strings.Repeat("q", 200) },
		"payload":    func(c *fsm.Command) { c.Payload = strings.Repeat("x", fsm.MaxPayloadBytes+1) },
		"uid":        func(c *fsm.Command) { c.UID = strings.Repeat("u", 65) },
		"no spool":   func(c *fsm.Command) { c.Spool = "" },
	} {
		c := good
		if spoil(&c); wellFormed(&c) {
			t.Errorf("%s was taken", what)
		}
	}
}
