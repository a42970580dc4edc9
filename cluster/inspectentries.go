package cluster

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

// The kinds of entry in a log.
const (
	EntryBatch         = "batch"
	EntryConfiguration = "configuration"
	EntryNoop          = "noop"
	EntryOther         = "other"
	EntryDamaged       = "damaged"
)

// LogEntry is one entry of an inspected log.
type LogEntry struct {
	Index, Term uint64
	Kind        string
	AppendedAt  time.Time // by the clock of the leader that made the entry

	Batch   fsm.Batch    // of EntryBatch
	Members []string     // of EntryConfiguration: "<node>/<instance> <suffrage>"
	Results []fsm.Result // of the batch's commands, where it was replayed
	Hash    uint64       // of the state after the entry, where Replayed
	Damage  string       // of EntryDamaged: what is wrong, up to the next entry

	Replayed bool
}

// Entries yields the entries from one index to another, both included. What is
// damaged is yielded as such and noted in Damages. The last entries of a log need
// not have been committed.
func (i *Inspection) Entries(from, to uint64) iter.Seq[LogEntry] {
	return func(yield func(LogEntry) bool) {
		if i.log == nil {
			return
		}
		next := from
		i.log.scan(from, to, func(index uint64, l *raft.Log, err error) bool {
			if next > from && index > next && !yield(i.damagedEntry(next, fmt.Errorf("entries %d to %d are missing", next, index-1))) {
				return false
			}
			if next = index + 1; l == nil {
				next = 0 // the error says how much is missing
			}
			if err != nil {
				return yield(i.damagedEntry(index, err))
			}
			e, err := decodeLog(i.dir, l)
			if err != nil {
				return yield(i.damagedEntry(index, err))
			}
			return yield(e)
		})
	}
}

func (i *Inspection) damagedEntry(index uint64, err error) LogEntry {
	d := i.damaged(filepath.Join(i.dir, walDir), err)
	return LogEntry{Index: index, Kind: EntryDamaged, Damage: d.What}
}

func decodeLog(path string, l *raft.Log) (e LogEntry, err error) {
	e = LogEntry{Index: l.Index, Term: l.Term, Kind: EntryOther, AppendedAt: l.AppendedAt}
	switch l.Type {
	case raft.LogCommand:
		e.Kind = EntryBatch
		if e.Batch, err = fsm.DecodeBatch(l.Data); err != nil {
			err = fmt.Errorf("entry %d is no batch that this version can read: %w", l.Index, err)
		}
	case raft.LogConfiguration:
		e.Kind = EntryConfiguration
		err = sheltered(path, func() error { // raft panics over what it cannot decode
			for _, s := range raft.DecodeConfiguration(l.Data).Servers {
				e.Members = append(e.Members, fmt.Sprintf("%s %s", s.ID, s.Suffrage))
			}
			return nil
		})
	case raft.LogNoop:
		e.Kind = EntryNoop
	}
	return e, err
}

// Replay is Entries with what became of each command: the log is applied to the
// newest snapshot that comes before the first entry wanted, or to an empty state
// where the log begins with entry 1. Where nothing reaches back that far, the
// first entries come without results, as does everything behind damage.
//
// On the way the state is held against the snapshots: each must be what the log
// makes of the one before.
func (i *Inspection) Replay(from, to uint64) iter.Seq[LogEntry] {
	return func(yield func(LogEntry) bool) {
		first, _ := i.Bounds()
		from := max(from, first)
		base := i.base(from)
		for e := range i.Entries(min(from, base.index+1), to) {
			base.apply(i, &e)
			if e.Index >= from && !yield(e) {
				return
			}
		}
	}
}

// state is a machine and the index up to which it has the log applied.
type state struct {
	m     *fsm.Machine // nil: there is none, or damage came in between
	index uint64
}

// base finds a state to begin with.
func (i *Inspection) base(from uint64) state {
	first, _ := i.Bounds()
	before, after := []raft.SnapshotMeta{}, []raft.SnapshotMeta{}
	for _, s := range i.snapshots {
		switch {
		case s.Index+1 < first: // entries are missing in between
		case s.Index < from:
			before = append(before, s)
		default:
			after = append(after, s)
		}
	}
	slices.Reverse(before) // the newest first
	for _, s := range before {
		if m := i.readSnapshot(s); m != nil {
			return state{m, s.Index}
		}
	}
	if first <= 1 {
		return state{fsm.New(), 0}
	}
	for _, s := range after {
		if m := i.readSnapshot(s); m != nil {
			return state{m, s.Index}
		}
	}
	return state{nil, from}
}

func (i *Inspection) snapshotPath(s raft.SnapshotMeta) string {
	return filepath.Join(i.dir, snapshotsDir, s.ID, "state.bin")
}

// readSnapshot is nil where the snapshot is damaged.
func (i *Inspection) readSnapshot(s raft.SnapshotMeta) *fsm.Machine {
	path := i.snapshotPath(s)
	f, err := os.Open(path)
	if err != nil {
		i.damaged(path, err)
		return nil
	}
	defer f.Close()
	m, err := snapshot.Read(f)
	if err != nil {
		i.damaged(path, err)
		return nil
	}
	return m
}

// apply applies the entry where the state is the one before it.
func (s *state) apply(i *Inspection, e *LogEntry) {
	switch {
	case s.m == nil || e.Index <= s.index:
		return
	case e.Kind == EntryDamaged || e.Index != s.index+1:
		s.m = nil
		return
	case e.Kind == EntryBatch:
		e.Results = s.m.Apply(e.Index, e.Batch)
	}
	s.index = e.Index
	e.Hash, e.Replayed = s.m.Hash(), true
	for _, taken := range i.snapshots {
		if taken.Index != e.Index {
			continue
		}
		if m := i.readSnapshot(taken); m != nil && m.Hash() != e.Hash {
			i.damaged(i.snapshotPath(taken), fmt.Errorf("its state has the digest %016x, but the log makes it %016x", m.Hash(), e.Hash))
		}
	}
}
