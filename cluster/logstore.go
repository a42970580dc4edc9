package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// logStore is what holds the log on disk: the WAL or boltdb.
type logStore interface {
	raft.LogStore
	io.Closer
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkedLog wraps the store of the log. It adds a checksum to every entry,
// since the stores verify none when they read, notes the last index in a file
// beside the log, since the WAL takes a damaged tail for an unfinished write, and
// shows every write to the watchdog.
type checkedLog struct {
	logStore
	path    string // named when something is damaged
	mark    *logMark
	watch   *watchdog
	fault   *diskFault
	fsync   func(time.Duration) // told of every write
	leads   func() bool         // asked by raft's main goroutine, so that it cannot change meanwhile
	late    *lateFlush
	putsOff bool         // the store is one whose flushes can be put off
	bytes   atomic.Int64 // behind the snapshot that the process started on
	entries atomic.Int64
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *checkedLog) IsMonotonic() bool {
	m, ok := s.logStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLog implements raft.LogStore.
func (s *checkedLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The checksum travels in a field that raft
// leaves to its users and that we use for nothing else.
func (s *checkedLog) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	copies := make([]raft.Log, len(logs))
	size := int64(0)
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = binary.BigEndian.AppendUint32(nil, logSum(l))
		sealed[i] = &copies[i]
		size += int64(len(l.Data)) + logOverheadBytes
	}
	s.late.settled()
	var err error
	if s.putsOff && s.leads() && onlyCommands(logs) {
		err = s.storeAndFlushLater(sealed)
	} else {
		err = s.storeFlushed(sealed)
	}
	if err == nil {
		s.bytes.Add(size)
		s.entries.Add(int64(len(logs)))
	}
	return err
}

// onlyCommands reports whether raft itself takes nothing from the entries: their
// effects all come through the replica, which waits for the flush.
func onlyCommands(logs []*raft.Log) bool {
	return !slices.ContainsFunc(logs, func(l *raft.Log) bool { return l.Type != raft.LogCommand })
}

func (s *checkedLog) storeFlushed(logs []*raft.Log) error {
	defer s.timed("writing the log")()
	if err := s.logStore.StoreLogs(logs); err != nil {
		return s.failed(err)
	}
	s.stored(logs[len(logs)-1].Index)
	return nil
}

// storeAndFlushLater returns when the entries are written, and has them flushed.
func (s *checkedLog) storeAndFlushLater(logs []*raft.Log) error {
	f := s.late.begin(logs[0].Index)
	timed := s.timed("writing the log")
	if err := s.logStore.StoreLogs(logs); err != nil {
		timed()
		s.late.end(f)
		return s.failed(err)
	}
	go func() {
		defer timed()
		if err := s.late.run(f); err != nil {
			s.fault.hold(diskError{s.path, true, err})
		}
		s.stored(logs[len(logs)-1].Index)
		s.late.end(f)
	}()
	return nil
}

// timed shows a write to the watchdog until the function that it returns is
// called.
func (s *checkedLog) timed(what string) (end func()) {
	done, start := s.watch.begin(what), time.Now()
	return func() {
		s.fsync(time.Since(start))
		done()
	}
}

// stored notes that the log is flushed up to an entry.
func (s *checkedLog) stored(last uint64) {
	if err := s.mark.set(last); err != nil {
		// The entries are stored: raft must not take them for refused, for any reason.
		s.fault.hold(diskError{s.mark.f.Name(), true, err})
	}
}

// failed is a write that failed. What the store holds after that is anybody's
// guess, except where there was no room: then nothing was written, and raft tries
// again later.
func (s *checkedLog) failed(err error) error {
	if !isNoSpace(err) {
		s.fault.hold(diskError{s.path, true, err})
	}
	return err
}

// logOverheadBytes is about what an entry takes beside its data.
const logOverheadBytes = 64

// GetLog implements raft.LogStore. Its only error is that there is no such entry:
// raft would panic over another.
func (s *checkedLog) GetLog(index uint64, l *raft.Log) error {
	err := s.read(index, l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		s.fault.hold(err)
	}
	return err
}

func (s *checkedLog) read(index uint64, l *raft.Log) error {
	if err := s.logStore.GetLog(index, l); errors.Is(err, raft.ErrLogNotFound) {
		return err
	} else if err != nil {
		return asDamage(s.path, fmt.Sprintf("entry %d cannot be read", index), err)
	}
	return checkEntry(s.path, index, l)
}

// checkEntry checks an entry as it was stored and takes its checksum off.
func checkEntry(path string, index uint64, l *raft.Log) error {
	sum := l.Extensions
	l.Extensions = nil
	if len(sum) != 4 || binary.BigEndian.Uint32(sum) != logSum(l) || l.Index != index {
		return damagedError{path, fmt.Sprintf("entry %d does not have its checksum", index), nil}
	}
	return nil
}

// DeleteRange implements raft.LogStore. The end of the log goes when another
// leader's entries or a snapshot take its place, so the mark goes back first.
func (s *checkedLog) DeleteRange(minIndex, maxIndex uint64) error {
	s.late.settled()
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if maxIndex >= last {
		if err := s.mark.lower(max(minIndex, 1) - 1); err != nil {
			return s.failed(err)
		}
	}
	done := s.watch.begin("removing old log entries")
	err = s.logStore.DeleteRange(minIndex, maxIndex)
	done()
	if err != nil {
		return s.failed(err)
	}
	return nil
}

func logSum(l *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, l.Data)
}

// verify reads the whole log and holds it against the mark and the snapshot.
func (s *checkedLog) verify(snapshotIndex uint64) error {
	first, err := s.FirstIndex()
	if err != nil {
		return asDamage(s.path, "its first entry cannot be found", err)
	}
	last, err := s.LastIndex()
	if err != nil {
		return asDamage(s.path, "its last entry cannot be found", err)
	}
	if marked, ok := s.mark.get(); ok && marked > max(last, snapshotIndex) {
		return damagedError{s.path, fmt.Sprintf("it ends with entry %d, but entry %d was stored", last, marked), nil}
	}
	if last > 0 && first > snapshotIndex+1 {
		return damagedError{s.path, fmt.Sprintf("it begins with entry %d, but the newest snapshot ends with %d", first, snapshotIndex), nil}
	}
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := s.read(i, &l); errors.Is(err, raft.ErrLogNotFound) {
			return damagedError{s.path, fmt.Sprintf("entry %d is missing", i), nil}
		} else if err != nil {
			return err
		}
		if i > snapshotIndex {
			s.bytes.Add(int64(len(l.Data)) + logOverheadBytes)
			s.entries.Add(1)
		}
	}
	return nil
}

// logMark remembers the index of the last entry stored. It is written without a
// flush, after the flush of the entry, so that it never runs ahead of the log:
// it survives the process, and after a power cut it may be behind, which proves
// nothing and costs nothing.
type logMark struct{ f *os.File }

func openLogMark(path string) (*logMark, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	return &logMark{f}, err
}

func (m *logMark) set(index uint64) error {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], index)
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	_, err := m.f.WriteAt(b[:], 0)
	return err
}

// lower flushes, since a mark beyond the log stands for damage.
func (m *logMark) lower(index uint64) error {
	if err := m.set(index); err != nil {
		return err
	}
	return m.f.Sync()
}

func (m *logMark) get() (index uint64, ok bool) {
	var b [12]byte
	if _, err := m.f.ReadAt(b[:], 0); err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint32(b[8:]) == crc32.Checksum(b[:8], castagnoli)
}

func (m *logMark) Close() error { return m.f.Close() }
