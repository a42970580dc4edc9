package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

// replica is this node's machine, as raft drives it and as readers see it.
type replica struct {
	clusterID func() string
	clock     func() time.Time
	log       *slog.Logger
	fatal     func(error)
	flushed   func(index uint64)                       // waits until an entry of the log is on this node's disk
	applied   func(*fsm.Batch)                         // after each batch, without the lock
	answered  func(entry []byte, results []fsm.Result) // after applied
	pace      pace                                     // of writing snapshots
	persisted func(bytes int64, took time.Duration)    // after each snapshot
	hashes    hashRing

	index atomic.Uint64 // of the last batch applied, or of the snapshot
	term  atomic.Uint64 // of the last batch applied

	mu     sync.RWMutex
	m      *fsm.Machine
	failed error // no entry is applied any more
}

// appliedBatch is what Apply answers to the proposer.
type appliedBatch struct {
	term    uint64
	results []fsm.Result
}

// Apply implements raft.FSM. An entry that this version cannot apply stops the
// node: to skip it would be to differ from the others.
func (r *replica) Apply(l *raft.Log) any {
	r.flushed(l.Index)
	b, err := fsm.DecodeBatch(l.Data)
	if err != nil {
		err = fmt.Errorf("log entry %d cannot be applied: %w", l.Index, err)
		r.fail(err)
		return err
	}
	r.mu.Lock()
	if r.failed != nil {
		defer r.mu.Unlock()
		return r.failed
	}
	results := r.m.Apply(l.Index, b)
	r.index.Store(l.Index)
	r.term.Store(l.Term)
	if l.Index%hashEvery == 0 {
		r.hashes.add(l.Index, r.m.Hash())
	}
	err = r.belongs(r.m)
	r.mu.Unlock()
	if err != nil {
		r.fail(err)
		return err
	}
	r.applied(&b)
	r.answered(l.Data, results)
	return &appliedBatch{l.Term, results}
}

func (r *replica) fail(err error) {
	r.mu.Lock()
	first := r.failed == nil
	if first {
		r.failed = err
	}
	r.mu.Unlock()
	if first {
		r.fatal(err)
	}
}

// belongs refuses the state of another cluster.
func (r *replica) belongs(m *fsm.Machine) error {
	if got, want := m.ClusterID(), r.clusterID(); got != "" && got != want {
		return fmt.Errorf("the state is that of cluster %s, but this node is in cluster %s: the data directory was mixed up", got, want)
	}
	return nil
}

// Snapshot implements raft.FSM. It only takes the roots of the state.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	return &imageSnapshot{r.m.Image(), r.pace, r.persisted}, nil
}

// Restore implements raft.FSM. The state stays as it was unless all of the
// snapshot is good.
func (r *replica) Restore(from io.ReadCloser) error {
	defer from.Close()
	m, err := snapshot.Read(from)
	if err == nil {
		err = r.belongs(m)
	}
	if err != nil {
		err = fmt.Errorf("a snapshot cannot be restored: %w", err)
		r.fail(err)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	r.m = m
	r.hashes.clear()
	r.index.Store(m.AppliedIndex())
	return nil
}

func (r *replica) err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.failed
}

// nowMs is the clock as log time, which neither goes back nor leaves the range
// that the log can hold.
func (r *replica) nowMs() int64 {
	const maxMs = 1 << 49
	return min(max(r.clock().UnixMilli(), 0), maxMs)
}

func (r *replica) sealer() (fsm.Sealer, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.m.Sealer()
}

func (r *replica) spoolState(spool string) fsm.Code {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.m.SpoolState(spool)
}

// receivable is [fsm.Machine.Receivable] as of now; nowMs is that now.
func (r *replica) receivable(spool, queue string) (code fsm.Code, visible int, wakeAtMs, nowMs int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	nowMs = max(r.nowMs(), r.m.NowMs())
	code, visible, wakeAtMs = r.m.Receivable(spool, queue, nowMs)
	return code, visible, wakeAtMs, nowMs
}

// queueName is [fsm.Machine.QueueName].
func (r *replica) queueName(number uint64) (spool, queue string, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.m.QueueName(number)
}

// due reports whether time has to advance in the log for something to happen.
func (r *replica) due() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, ok := r.m.NextDueMs()
	return ok && at <= max(r.nowMs(), r.m.NowMs())
}

// hash returns the digest of the state and the index that it belongs to.
func (r *replica) hash() (index, hash uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.m.AppliedIndex(), r.m.Hash()
}

// read answers a query from this node's state. Where the answer may take long it
// is taken from an image, so that Apply does not wait for it.
func (r *replica) read(q fsm.Query) fsm.Answer {
	if q.Light() {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.m.Read(r.nowMs(), q)
	}
	return r.imageNow().Read(q)
}

// imageNow is the state with everything done that is due by now.
func (r *replica) imageNow() *fsm.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m.ImageAt(r.nowMs())
}

var errNoCaps = errors.New("the default spool is missing")

// defaultSpool returns the default spool's record.
func (r *replica) defaultSpool() (fsm.SpoolRecord, error) {
	r.mu.Lock()
	image := r.m.Image()
	r.mu.Unlock()
	for s := range image.Spools() {
		if s.Name == fsm.DefaultSpool {
			return s, nil
		}
	}
	return fsm.SpoolRecord{}, errNoCaps
}
