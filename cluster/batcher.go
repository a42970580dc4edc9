package cluster

import (
	"fmt"
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
type batcher struct {
	raft    func() *raft.Raft
	nowMs   func() int64
	full    func() bool // of the disk
	observe func(commands int, took time.Duration)

	mu    sync.Mutex
	open  bool
	queue []*item
	bytes int
	keys  *keySet
	tick  bool // an entry is wanted, also without commands

	lastMs   int64 // the latest stamp
	kick     chan struct{}
	stop     chan struct{}
	done     chan struct{}
	inFlight atomic.Int64 // commands
}

func newBatcher() *batcher {
	return &batcher{keys: newKeySet(), kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// serve opens the batcher when this node has taken the lead, and shuts it when
// the lead is lost; then what is queued is refused, as it entered no log.
func (b *batcher) serve(open bool) {
	b.mu.Lock()
	b.open = open
	b.keys = newKeySet()
	queue := b.drain()
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
	b.wake()
	for _, r := range refused {
		if r.item.take() {
			r.item.settle(r.result, r.err)
		}
	}
}

func (b *batcher) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// advance has time advance in the log, with or without commands.
func (b *batcher) advance() {
	b.mu.Lock()
	b.tick = b.open
	b.mu.Unlock()
	b.wake()
}

func (b *batcher) run() {
	defer close(b.done)
	for {
		select {
		case <-b.kick:
		case <-b.stop:
			return
		}
		for last := 0; ; {
			b.hold(last)
			items, tick := b.take()
			if len(items) == 0 && !tick {
				break
			}
			b.propose(items)
			last = len(items)
		}
	}
}

// hold waits a moment for the callers of the last batch to come back, so that
// they share an entry again. A lone caller is never held.
func (b *batcher) hold(last int) {
	if last < 2 {
		return
	}
	want := last - last/8
	var timer *time.Timer
	for {
		b.mu.Lock()
		have := len(b.queue)
		b.mu.Unlock()
		if have >= want {
			return
		}
		if timer == nil {
			timer = time.NewTimer(holdTime)
			defer timer.Stop()
		}
		select {
		case <-b.kick:
		case <-timer.C:
			return
		case <-b.stop:
			return
		}
	}
}

// take removes the commands of the next entry from the queue.
func (b *batcher) take() (items []*item, tick bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
	b.inFlight.Store(int64(len(items)))
	tick, b.tick = b.tick, false
	return items, tick
}

// propose puts one entry into the log and settles its commands.
func (b *batcher) propose(items []*item) {
	size := 16
	cmds := make([]fsm.Command, len(items))
	for n, i := range items {
		cmds[n] = *i.cmd
		size += i.bytes() + 64
	}
	start := time.Now()
	results, err := b.commit(cmds, size)
	b.observe(len(items), time.Since(start))
	for n, i := range items {
		i.leave()
		if err != nil {
			i.settle(fsm.Result{}, err)
		} else {
			i.settle(results[n], nil)
		}
	}
	b.inFlight.Store(0)
}

func (b *batcher) commit(cmds []fsm.Command, size int) ([]fsm.Result, error) {
	a, err := b.apply(cmds, size)
	if err != nil {
		return nil, err
	}
	if len(a.results) != len(cmds) {
		return nil, unknown("the machine answered another number of commands")
	}
	return a.results, nil
}

// apply proposes one entry and waits for its outcome. Raft keeps the encoded
// bytes, so the buffer is made anew each time.
func (b *batcher) apply(cmds []fsm.Command, size int) (*appliedBatch, error) {
	b.mu.Lock()
	b.lastMs = max(b.lastMs, b.nowMs())
	stamp := b.lastMs
	b.mu.Unlock()
	r := b.raft()
	if r == nil {
		return nil, errNotLeader
	}
	f := r.Apply(fsm.AppendBatch(make([]byte, 0, size), fsm.Batch{NowMs: stamp, Commands: cmds}), enqueueTimeout)
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
	return len(b.queue) == 0 && b.inFlight.Load() == 0
}

func (b *batcher) close() {
	b.serve(false)
	close(b.stop)
	<-b.done
}
