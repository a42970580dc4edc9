package cluster

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// lateFlush has a leader flush an entry while its followers store it, rather
// than before they hear of it (Ongaro, "Consensus: Bridging Theory and Practice",
// 10.2.1). Raft takes the entry for stored when the flush has only begun. Until it
// ends, nothing that depends on the entry leaves the node: it is not applied
// (await), no follower is told that it is committed (limit), and nothing is
// answered to another member (settled). So to everybody else a node that loses
// power before the end of the flush is one that never stored the entry.
type lateFlush struct {
	fault *diskFault

	current atomic.Pointer[flush] // nil: everything written is flushed
}

// flush is that of one write to the log.
type flush struct {
	first uint64        // index of the first entry written
	done  chan struct{} // closed at the end

	mu      sync.Mutex
	writing bool
	files   []types.WritableFile
}

// begin has the flushes put off that a write of entries from first on asks for.
// There is one at a time: the log takes no write but its last for possibly torn.
func (l *lateFlush) begin(first uint64) *flush {
	f := &flush{first: first, done: make(chan struct{}), writing: true}
	l.current.Store(f)
	return f
}

// run makes up for the flushes that were put off, after the write.
func (l *lateFlush) run(f *flush) error {
	f.mu.Lock()
	f.writing = false
	files := f.files
	f.mu.Unlock()
	for _, file := range files {
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// end says that everything written is flushed.
func (l *lateFlush) end(f *flush) {
	l.current.Store(nil)
	close(f.done)
}

// settled waits until everything written is flushed.
func (l *lateFlush) settled() { l.wait(l.current.Load()) }

// await waits until an entry is flushed.
func (l *lateFlush) await(index uint64) {
	if f := l.current.Load(); f != nil && index >= f.first {
		l.wait(f)
	}
}

// limit is how far the log up to an index is flushed.
func (l *lateFlush) limit(index uint64) uint64 {
	if f := l.current.Load(); f != nil {
		return min(index, f.first-1)
	}
	return index
}

// wait does not return where the flush fails: see diskFault.
func (l *lateFlush) wait(f *flush) {
	if !l.ended(f) {
		<-l.fault.stop
		runtime.Goexit()
	}
}

// ended waits for the end of a flush and reports whether it went well.
func (l *lateFlush) ended(f *flush) bool {
	if f == nil {
		return true
	}
	select {
	case <-f.done:
		return true
	case <-l.fault.struck:
		return false
	}
}

// close waits until no flush runs.
func (l *lateFlush) close() { l.ended(l.current.Load()) }

// putOff notes that a file is to be flushed after the current write. It reports
// false where there is none.
func (l *lateFlush) putOff(file types.WritableFile) bool {
	f := l.current.Load()
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writing {
		f.files = append(f.files, file)
	}
	return f.writing
}

// written waits for the flush of what has been written so far, but not of what a
// write has yet to write that may itself be waiting for the caller.
func (l *lateFlush) written() {
	f := l.current.Load()
	if f == nil {
		return
	}
	f.mu.Lock()
	wrote := len(f.files) > 0
	f.mu.Unlock()
	if wrote {
		l.wait(f)
	}
}

// lateFS is the file system under the WAL, in which flushes can be put off.
type lateFS struct {
	types.VFS
	late *lateFlush
}

// Create implements types.VFS.
func (s *lateFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	return s.file(s.VFS.Create(dir, name, size))
}

// OpenWriter implements types.VFS.
func (s *lateFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	return s.file(s.VFS.OpenWriter(dir, name))
}

func (s *lateFS) file(f types.WritableFile, err error) (types.WritableFile, error) {
	if err != nil {
		return nil, err
	}
	return &lateFile{f, s.late}, nil
}

type lateFile struct {
	types.WritableFile
	late *lateFlush
}

// Sync implements types.WritableFile.
func (f *lateFile) Sync() error {
	if f.late.putOff(f.WritableFile) {
		return nil
	}
	return f.WritableFile.Sync()
}

// lateMeta is the WAL's list of segments. It must not say of a segment that it is
// complete before the segment is flushed.
type lateMeta struct {
	metadb.BoltMetaDB
	late *lateFlush
}

// CommitState implements types.MetaStore.
func (m *lateMeta) CommitState(s types.PersistentState) error {
	m.late.written()
	return m.BoltMetaDB.CommitState(s)
}
