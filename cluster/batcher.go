package cluster

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

const (
	maxBatchBytes    = 512 << 10
	maxBatchCommands = 4096
	maxQueueBytes    = 64 << 20
	maxQueueCommands = 16 << 10
	holdTime         = time.Millisecond
	enqueueTimeout   = 5 * time.Second
)

// batcher turns the commands that reach the leader into log entries. One entry
// is in flight at a time; what comes meanwhile makes the next one.
//
// It has no goroutine of its own: whoever brings a command, or the end of the
// entry before, proposes the next one, since to wake another goroutine for it
// would cost more than the work.
type batcher struct {
	raft    func() *raft.Raft
	nowMs   func() int64
	full    func() bool // of the disk
	observe func(commands int, took time.Duration)

	mu      sync.Mutex
	running bool // entries are proposed
	open    bool // commands are taken
	queue   []*item
	bytes   int
	keys    *keySet
	tick    bool      // an entry is wanted, also without commands
	flying  *proposal // nil: none is in flight
	wanted  int       // commands that the next entry is held for
	held    *time.Timer
	lastMs  int64 // the latest stamp

	stop     chan struct{}
	awaiting sync.WaitGroup
}

// proposal is an entry in flight.
type proposal struct {
	items []*item
	entry atomic.Pointer[byte] // where its bytes are
	begun time.Time
	ended atomic.Bool

	future  raft.ApplyFuture // nil: raft has not taken the entry yet
	awaited bool
}

func newBatcher() *batcher {
	b := &batcher{keys: newKeySet(), stop: make(chan struct{})}
	b.held = time.AfterFunc(time.Hour, b.release)
	b.held.Stop()
	return b
}

// start has commands proposed.
func (b *batcher) start() {
	b.mu.Lock()
	b.running = true
	b.mu.Unlock()
	b.step()
}

// serve opens the batcher when this node has taken the lead, and shuts it when
// the lead is lost; then what is queued is refused, as it entered no log.
func (b *batcher) serve(open bool) {
	b.mu.Lock()
	b.open = open
	b.keys = newKeySet()
	queue := b.drain()
	b.lookLocked()
	b.mu.Unlock()
	refuse(queue, errNotLeader)
}

func (b *batcher) drain() []*item {
	queue := b.queue
	b.queue, b.bytes, b.tick = nil, 0, false
	return queue
}

// refuse settles items that were never taken.
func refuse(items []*item, err error) {
	for _, i := range items {
		i.leave()
		if i.take() {
			i.settle(fsm.Result{}, err)
		}
	}
}

// submit queues commands, or settles at once those that it refuses.
func (b *batcher) submit(items ...*item) {
	disk := b.full()
	type refusal struct {
		item   *item
		result fsm.Result
		err    error
	}
	var refused []refusal
	b.mu.Lock()
	b.queue = slices.Grow(b.queue, len(items))
	for _, i := range items {
		size := i.bytes()
		switch {
		case !b.open:
			refused = append(refused, refusal{item: i, err: errNotLeader})
		case disk:
			refused = append(refused, refusal{item: i, err: errDiskFull})
		case len(b.queue) >= maxQueueCommands || (b.bytes+size > maxQueueBytes && len(b.queue) > 0):
			refused = append(refused, refusal{item: i, err: errBusy})
		case !b.keys.enter(i):
			refused = append(refused, refusal{item: i, result: fsm.Result{Code: fsm.CodeDedupInFlight}})
		default:
			b.queue = append(b.queue, i)
			b.bytes += size
		}
	}
	b.mu.Unlock()
	b.step()
	for _, r := range refused {
		if r.item.take() {
			r.item.settle(r.result, r.err)
		}
	}
}

// advance has time advance in the log, with or without commands.
func (b *batcher) advance() {
	b.mu.Lock()
	b.tick = b.open
	b.mu.Unlock()
	b.step()
}

// step proposes the next entry, unless there is nothing to propose, one is in
// flight, or more commands are waited for.
func (b *batcher) step() {
	b.mu.Lock()
	if !b.running || b.flying != nil || len(b.queue) < b.wanted {
		b.mu.Unlock()
		return
	}
	b.unhold()
	items, tick := b.take()
	if len(items) == 0 && !tick {
		b.mu.Unlock()
		return
	}
	p := &proposal{items: items, begun: time.Now()}
	b.flying = p
	b.mu.Unlock()
	b.propose(p)
}

// hold has the next entry wait a moment for the callers of the last one to come
// back, so that they share one again. A lone caller is never held.
func (b *batcher) hold(last int) {
	if last > 1 {
		b.wanted = last - last/8
		b.held.Reset(holdTime)
	}
}

func (b *batcher) unhold() {
	b.wanted = 0
	b.held.Stop()
}

// release ends the hold.
func (b *batcher) release() {
	b.mu.Lock()
	b.wanted = 0
	b.mu.Unlock()
	b.step()
}

// take removes the commands of the next entry from the queue.
func (b *batcher) take() (items []*item, tick bool) {
	size, n := 0, 0
	for ; n < len(b.queue) && len(items) < maxBatchCommands; n++ {
		i := b.queue[n]
		if len(items) > 0 && size+i.bytes() > maxBatchBytes {
			break
		}
		b.bytes -= i.bytes()
		if !i.take() {
			i.leave()
			continue
		}
		size += i.bytes()
		items = append(items, i)
	}
	clear(b.queue[:n])
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	}
	tick, b.tick = b.tick, false
	return items, tick
}

// propose puts an entry into the log.
func (b *batcher) propose(p *proposal) {
	size := 16
	cmds := make([]fsm.Command, len(p.items))
	for n, i := range p.items {
		cmds[n] = *i.cmd
		size += i.bytes() + 64
	}
	r := b.raft()
	if r == nil {
		b.end(p, nil, errNotLeader)
		return
	}
	data := b.encode(cmds, size)
	p.entry.Store(&data[0])
	f := r.Apply(data, enqueueTimeout)
	b.mu.Lock()
	p.future = f
	running := b.running
	b.mu.Unlock()
	if !running {
		b.end(p, nil, unknown("this node is shutting down"))
	}
}

// look has the future of the entry in flight awaited. The machine tells of an
// entry that it has applied, so that only one that fails, or takes long, needs it.
func (b *batcher) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookLocked()
}

func (b *batcher) lookLocked() {
	p := b.flying
	if !b.running || p == nil || p.future == nil || p.awaited {
		return
	}
	p.awaited = true
	b.awaiting.Go(func() {
		a, err := b.outcome(p.future)
		if err == nil && len(a.results) != len(p.items) {
			err = unknown("the machine answered another number of commands")
		}
		if err != nil {
			b.end(p, nil, err)
		} else {
			b.end(p, a.results, nil)
		}
	})
}

// encode stamps a batch. Raft keeps the bytes, so they are made anew each time.
func (b *batcher) encode(cmds []fsm.Command, size int) []byte {
	b.mu.Lock()
	b.lastMs = max(b.lastMs, b.nowMs())
	stamp := b.lastMs
	b.mu.Unlock()
	return fsm.AppendBatch(make([]byte, 0, size), fsm.Batch{NowMs: stamp, Commands: cmds})
}

// applied ends the entry in flight when the machine has applied it.
func (b *batcher) applied(data []byte, results []fsm.Result) {
	b.mu.Lock()
	p := b.flying
	b.mu.Unlock()
	// Raft hands the machine of the proposer the very bytes that were proposed.
	if p != nil && len(results) == len(p.items) && len(data) > 0 && &data[0] == p.entry.Load() {
		b.end(p, results, nil)
	}
}

// end settles the commands of an entry and proposes the next. The first to know
// the outcome ends it.
func (b *batcher) end(p *proposal, results []fsm.Result, err error) {
	if !p.ended.CompareAndSwap(false, true) {
		return
	}
	b.observe(len(p.items), time.Since(p.begun))
	for n, i := range p.items {
		i.leave()
		if err != nil {
			i.settle(fsm.Result{}, err)
		} else {
			i.settle(results[n], nil)
		}
	}
	b.mu.Lock()
	b.flying = nil
	b.hold(len(p.items))
	b.mu.Unlock()
	b.step()
}

// apply proposes an entry beside those of the batcher and waits for its outcome.
func (b *batcher) apply(cmds []fsm.Command, size int) (*appliedBatch, error) {
	r := b.raft()
	if r == nil {
		return nil, errNotLeader
	}
	return b.outcome(r.Apply(b.encode(cmds, size), enqueueTimeout))
}

func (b *batcher) outcome(f raft.ApplyFuture) (*appliedBatch, error) {
	if err := b.await(f); err != nil {
		return nil, translate(err)
	}
	switch a := f.Response().(type) {
	case *appliedBatch:
		return a, nil
	case error:
		return nil, fmt.Errorf("%w: %w", fsm.ErrUnknown, a)
	default:
		return nil, unknown("the machine gave no answer")
	}
}

// await waits for a future, but no longer than the batcher lives: raft leaves
// futures unanswered when it is shut down at a bad moment.
func (b *batcher) await(f raft.Future) error {
	ch := make(chan error, 1)
	go func() { ch <- f.Error() }()
	select {
	case err := <-ch:
		return err
	case <-b.stop:
	}
	select {
	case err := <-ch:
		return err
	case <-time.After(100 * time.Millisecond):
		return raft.ErrRaftShutdown
	}
}

// idle reports whether nothing is queued or in flight.
func (b *batcher) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) == 0 && b.flying == nil
}

func (b *batcher) close() {
	b.serve(false)
	b.mu.Lock()
	b.lookLocked()
	b.running = false
	b.unhold()
	b.mu.Unlock()
	close(b.stop)
	b.awaiting.Wait()
}
