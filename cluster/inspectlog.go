package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// logReader reads a log without writing a byte, which the stores themselves do
// not: they repair and prepare what they open.
type logReader interface {
	bounds() (first, last uint64)
	// scan yields the entries from one index to another, or what is wrong with
	// them: an error stands for all entries up to the next one yielded.
	scan(from, to uint64, yield func(index uint64, l *raft.Log, err error) bool)
	close()
}

// boltReader reads a log of the bolt store.
type boltReader struct {
	path        string
	store       *raftboltdb.BoltStore
	first, last uint64
}

// readBolt opens the log. One of which nothing can be read is empty, and told.
func readBolt(path string, damaged func(string, error) Damage) (logReader, error) {
	r := &boltReader{path: path}
	err := checkBolt(path, nil)
	if err == nil {
		err = sheltered(path, r.open)
	}
	if fromDisk(err) {
		return nil, err
	}
	if err != nil {
		damaged(path, err)
	}
	checkMark(path, r.last, damaged)
	return r, nil
}

func (r *boltReader) open() (err error) {
	r.store, err = raftboltdb.New(raftboltdb.Options{Path: r.path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: time.Second}})
	if err != nil {
		return err
	}
	if r.first, err = r.store.FirstIndex(); err == nil {
		r.last, err = r.store.LastIndex()
	}
	return err
}

func (r *boltReader) bounds() (first, last uint64) { return r.first, r.last }

func (r *boltReader) scan(from, to uint64, yield func(uint64, *raft.Log, error) bool) {
	for index := max(from, r.first, 1); index <= min(to, r.last); index++ {
		var l raft.Log
		err := sheltered(r.path, func() error { return r.store.GetLog(index, &l) })
		if err == nil {
			err = checkEntry(r.path, index, &l)
		}
		if !yield(index, &l, err) {
			return
		}
	}
}

func (r *boltReader) close() {
	if r.store != nil {
		r.store.Close()
	}
}

// walReader reads a log of the WAL: sealed segments by their index, the last
// one from its beginning.
type walReader struct {
	dir         string
	filer       *segment.Filer
	segments    []types.SegmentInfo
	first, last uint64
}

// readWAL opens the log. Without the list of its segments it goes by the names
// of the files, which may hold entries that had been removed.
func readWAL(dir string, damaged func(string, error) Damage) (logReader, error) {
	r := &walReader{dir: dir, filer: segment.NewFiler(dir, fs.New())}
	path := filepath.Join(dir, metadb.FileName)
	state, err := readSegmentList(path)
	if fromDisk(err) {
		return nil, err
	}
	if r.segments = state.Segments; err != nil {
		damaged(path, err)
		r.segments = r.listSegments()
	}
	for _, s := range r.segments {
		low, high := s.MinIndex, s.MaxIndex
		if s.SealTime.IsZero() {
			high = 0
			r.scanTail(s, low, math.MaxUint64, func(index uint64, l *raft.Log, _ error) bool {
				if l != nil {
					high = index
				}
				return true
			})
		}
		if high < low || high == 0 {
			continue
		}
		if r.first == 0 {
			r.first = low
		}
		r.last = max(r.last, high)
	}
	checkMark(dir, r.last, damaged)
	return r, nil
}

// listSegments takes every segment for one that was written to last.
func (r *walReader) listSegments() (all []types.SegmentInfo) {
	bases, err := r.filer.List()
	if err != nil {
		return nil
	}
	for id, base := range bases {
		all = append(all, types.SegmentInfo{ID: id, BaseIndex: base, MinIndex: base})
	}
	slices.SortFunc(all, func(a, b types.SegmentInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// readSegmentList reads which segments there are and what of them counts.
func readSegmentList(path string) (state types.PersistentState, err error) {
	if err := mustExist(path, true); err != nil {
		return state, err
	}
	err = checkBolt(path, func(key, value []byte) error {
		if string(key) == metadb.MetaKey {
			return json.Unmarshal(value, &state)
		}
		return nil
	})
	return state, err
}

// checkMark holds the end of the log against the mark beside it.
func checkMark(path string, last uint64, damaged func(string, error) Damage) {
	f, err := os.Open(filepath.Join(filepath.Dir(path), markFile))
	if err != nil {
		return // there may be none yet
	}
	defer f.Close()
	m := logMark{f}
	if marked, ok := m.get(); ok && marked > last {
		damaged(path, fmt.Errorf("it ends with entry %d, but entry %d was stored", last, marked))
	}
}

func (r *walReader) bounds() (first, last uint64) { return r.first, r.last }

func (r *walReader) scan(from, to uint64, yield func(uint64, *raft.Log, error) bool) {
	on := true
	each := func(index uint64, l *raft.Log, err error) bool {
		on = yield(index, l, err)
		return on
	}
	for _, s := range r.segments {
		low, high := max(from, s.MinIndex), to
		if !s.SealTime.IsZero() {
			high = min(to, s.MaxIndex)
		}
		switch {
		case !on || low > high:
		case s.SealTime.IsZero():
			r.scanTail(s, low, high, each)
		default:
			r.scanSealed(s, low, high, each)
		}
	}
}

func (r *walReader) scanSealed(s types.SegmentInfo, low, high uint64, yield func(uint64, *raft.Log, error) bool) {
	path := filepath.Join(r.dir, segment.FileName(s))
	file, err := r.filer.Open(s)
	if err != nil {
		yield(low, nil, asDamage(path, fmt.Sprintf("entries %d to %d cannot be read", low, high), err))
		return
	}
	defer file.Close()
	for index := low; index <= high; index++ {
		var l raft.Log
		err := sheltered(path, func() error {
			b, err := file.GetLog(index)
			if err != nil {
				return asDamage(path, fmt.Sprintf("entry %d cannot be read", index), err)
			}
			defer b.Close()
			return decodeEntry(path, index, b.Bs, &l)
		})
		if !yield(index, &l, err) {
			return
		}
	}
}

// scanTail reads a segment that was not sealed.
func (r *walReader) scanTail(s types.SegmentInfo, low, high uint64, yield func(uint64, *raft.Log, error) bool) {
	path := filepath.Join(r.dir, segment.FileName(s))
	next := low
	err := r.filer.DumpSegment(s.BaseIndex, s.ID, low-1, 0, func(_ types.SegmentInfo, e types.LogEntry) (bool, error) {
		if e.Index > high {
			return false, nil
		}
		next = e.Index + 1
		var l raft.Log
		err := sheltered(path, func() error { return decodeEntry(path, e.Index, e.Data, &l) })
		return yield(e.Index, &l, err), nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it is made with its first entry
		yield(next, nil, asDamage(path, fmt.Sprintf("entry %d and what comes after cannot be read", next), err))
	}
}

func (r *walReader) close() {}

func decodeEntry(path string, index uint64, data []byte, l *raft.Log) error {
	if err := new(wal.BinaryCodec).Decode(data, l); err != nil {
		return asDamage(path, fmt.Sprintf("entry %d cannot be decoded", index), err)
	}
	return checkEntry(path, index, l)
}
