package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// localBroker applies commands to a machine of its own at once. Its clock only
// moves when a test moves it, and a wait ends by that clock.
type localBroker struct {
	mu      sync.Mutex
	machine *fsm.Machine
	index   uint64
	nowMs   int64
	changed chan struct{} // closed at every change and every move of the clock
	waiting chan struct{} // gets a value when a receive begins to wait
	noWait  bool
}

func newLocalBroker() *localBroker {
	b := &localBroker{
		machine: fsm.New(),
		nowMs:   time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC).UnixMilli(),
		changed: make(chan struct{}),
		waiting: make(chan struct{}, 1000),
	}
	b.apply(fsm.Command{Op: fsm.OpInit, Secret: fsm.Secret{1, 2, 3}, ClusterID: "test"})
	return b
}

// apply is for tests to reach the machine beside the API.
func (b *localBroker) apply(c fsm.Command) fsm.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applyLocked(c)
}

func (b *localBroker) applyLocked(c fsm.Command) fsm.Result {
	b.index++
	r := b.machine.Apply(b.index, fsm.Batch{NowMs: b.nowMs, Commands: []fsm.Command{c}})[0]
	if r.Code != fsm.CodeEmpty {
		b.wakeLocked()
	}
	return r
}

func (b *localBroker) wakeLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// advance moves the clock.
func (b *localBroker) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nowMs += d.Milliseconds()
	b.wakeLocked()
}

func (b *localBroker) Do(_ context.Context, c *fsm.Command) (fsm.Result, error) {
	return b.apply(*c), nil
}

// DoAll applies all commands as one batch, as a leader mostly does.
func (b *localBroker) DoAll(_ context.Context, cs []fsm.Command) []fsm.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index++
	outs := make([]fsm.Outcome, len(cs))
	for i, r := range b.machine.Apply(b.index, fsm.Batch{NowMs: b.nowMs, Commands: cs}) {
		outs[i].Result = r
	}
	b.wakeLocked()
	return outs
}

func (b *localBroker) Receive(ctx context.Context, spool, queue string, wait time.Duration) (fsm.Result, error) {
	return b.receive(ctx, fsm.Command{Op: fsm.OpReceive, Spool: spool, Queue: queue}, wait)
}

func (b *localBroker) ReceiveMany(ctx context.Context, spool, queue string, count, maxBytes uint32, wait time.Duration) (fsm.Result, error) {
	return b.receive(ctx, fsm.Command{Op: fsm.OpReceiveMany, Spool: spool, Queue: queue, Count: count, MaxBytes: maxBytes}, wait)
}

func (b *localBroker) receive(ctx context.Context, c fsm.Command, wait time.Duration) (fsm.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	deadline := b.nowMs + wait.Milliseconds()
	for {
		if ctx.Err() != nil {
			return fsm.Result{}, fsm.ErrNotApplied
		}
		r := b.applyLocked(c)
		if r.Code != fsm.CodeEmpty || b.noWait || b.nowMs >= deadline {
			return r, nil
		}
		changed := b.changed
		b.mu.Unlock()
		b.waiting <- struct{}{}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
}

func (b *localBroker) Read(_ context.Context, q fsm.Query) (fsm.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.Light() {
		return b.machine.Read(b.nowMs, q), nil
	}
	return b.machine.ImageAt(b.nowMs).Read(q), nil
}

func (b *localBroker) Sealer() (fsm.Sealer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Sealer()
}

func (b *localBroker) SpoolState(spool string) fsm.Code {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.SpoolState(spool)
}

func (b *localBroker) Ready() error { return nil }

// fakeBroker answers what a test gives it and records what it was asked.
type fakeBroker struct {
	mu       sync.Mutex
	commands []fsm.Command
	queries  []fsm.Query
	receives int

	result   fsm.Result
	answer   fsm.Answer
	err      error
	onDo     func(fsm.Command) (fsm.Result, error)
	onWait   func(context.Context) (fsm.Result, error)
	state    fsm.Code
	noSecret bool
	notReady error
}

func (b *fakeBroker) Do(_ context.Context, c *fsm.Command) (fsm.Result, error) {
	b.mu.Lock()
	b.commands = append(b.commands, *c)
	b.mu.Unlock()
	if b.onDo != nil {
		return b.onDo(*c)
	}
	return plausible(b.result), b.err
}

// DoAll answers each command as Do would.
func (b *fakeBroker) DoAll(ctx context.Context, cs []fsm.Command) []fsm.Outcome {
	outs := make([]fsm.Outcome, len(cs))
	for i := range cs {
		outs[i].Result, outs[i].Err = b.Do(ctx, &cs[i])
	}
	return outs
}

// plausible fills in what every answer of a machine has.
func plausible(r fsm.Result) fsm.Result {
	if r.Code == fsm.CodeOK && r.ID == (fsm.MessageID{}) {
		r.ID = fsm.MessageID{Queue: 1, Message: 1}
	}
	if r.Queue == nil {
		r.Queue = &someQueue
	}
	return r
}

// someQueue is a queue for answers in which it does not matter.
var someQueue = fsm.QueueInfo{Name: "orders", UID: "1", State: fsm.QueueActive, Settings: fsm.DefaultSettings(), EffectiveRetentionSeconds: 60}

func (b *fakeBroker) Receive(ctx context.Context, _, _ string, _ time.Duration) (fsm.Result, error) {
	b.mu.Lock()
	b.receives++
	b.mu.Unlock()
	if b.onWait != nil {
		return b.onWait(ctx)
	}
	return plausible(b.result), b.err
}

func (b *fakeBroker) ReceiveMany(ctx context.Context, spool, queue string, _, _ uint32, wait time.Duration) (fsm.Result, error) {
	r, err := b.Receive(ctx, spool, queue, wait)
	if r.Code == fsm.CodeOK && err == nil && len(r.Deliveries) == 0 {
		r.Deliveries = []fsm.Delivery{{ID: r.ID, Moves: r.Moves, LeaseExpiresAtMs: r.LeaseExpiresAtMs, Payload: r.Payload}}
	}
	return r, err
}

func (b *fakeBroker) Read(_ context.Context, q fsm.Query) (fsm.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queries = append(b.queries, q)
	return b.answer, b.err
}

func (b *fakeBroker) Sealer() (fsm.Sealer, bool) { return fsm.Sealer{}, !b.noSecret }
func (b *fakeBroker) SpoolState(string) fsm.Code { return b.state }
func (b *fakeBroker) Ready() error               { return b.notReady }
func (b *fakeBroker) asked() (proposals, all int) {
	return len(b.commands), len(b.commands) + len(b.queries) + b.receives
}

// proposed returns the only command, for tests that expect one.
func (b *fakeBroker) proposed() fsm.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.commands) != 1 {
		return fsm.Command{}
	}
	return b.commands[0]
}

// waitRecorder keeps how long a receive would wait.
type waitRecorder struct {
	fakeBroker
	wait time.Duration
}

func (b *waitRecorder) Receive(_ context.Context, _, _ string, wait time.Duration) (fsm.Result, error) {
	b.wait = wait
	return fsm.Result{Code: fsm.CodeEmpty}, nil
}
