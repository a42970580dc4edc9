package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"go.etcd.io/bbolt"
)

// What lies in a data directory, beside the identity and the lock.
const (
	votesFile    = "votes.db"
	walDir       = "log"
	boltFile     = "log.db"
	markFile     = "log.mark"
	snapshotsDir = "snapshots" // named by raft's store

	snapshotsKept = 2
	// logCacheEntries bounds what the cache of recent entries holds in memory: a
	// batch is half a MiB at most, unless one payload is larger.
	logCacheEntries = 64
)

// storage is a data directory, open.
type storage struct {
	dir   string
	lock  *os.File
	id    *identity
	watch *watchdog
	fault *diskFault

	log       *checkedLog
	cache     *raft.LogCache
	votes     *raftboltdb.BoltStore
	stable    *checkedStable
	snapshots *raft.FileSnapshotStore

	newest *raft.SnapshotMeta // when it was opened; nil: none
}

// storageHooks are what the storage reports to.
type storageHooks struct {
	fsync   func(time.Duration)
	leads   func() bool
	silence func(bool)
	fatal   func(error)
	stop    <-chan struct{}
}

// openStorage opens the data directory and verifies all that is in it.
func openStorage(cfg *Config, hooks storageHooks, hlog hclog.Logger) (s *storage, err error) {
	s = &storage{dir: cfg.DataDir}
	defer func() {
		if err != nil {
			s.close()
		}
		if d := (diskError{}); fromDisk(err) && !errors.As(err, &d) {
			err = diskError{s.dir, false, err}
		}
	}()
	if s.lock, err = lockDir(s.dir); err != nil {
		return s, err
	}
	if s.id, err = loadIdentity(s.dir, cfg.NodeID); err != nil {
		return s, err
	}
	if err := s.id.start(s.dir, time.Now()); err != nil {
		cfg.Logger.Warn("this start cannot be noted; should the node have another address now, others may find it later", "error", err)
	}
	s.fault = newDiskFault(hooks.fatal, hooks.stop)
	s.watch = &watchdog{
		slow: cfg.tuning.storeSlow, dead: cfg.tuning.storeDead, silence: hooks.silence, fatal: hooks.fatal,
		log: cfg.Logger, pending: make(map[*diskWrite]struct{}),
	}
	if err = s.openVotes(cfg, hooks); err != nil {
		return s, err
	}
	if err = s.openSnapshots(hlog); err != nil {
		return s, err
	}
	if err = s.openLog(cfg, hooks, hlog); err != nil {
		return s, err
	}
	exists, err := s.hasState()
	if err != nil {
		return s, err
	}
	if s.id.Bootstrapped && !exists {
		return s, damagedError{s.log.path, "the log, the votes and the snapshots are empty, but this node has been in a cluster", nil}
	}
	return s, nil
}

func (s *storage) openVotes(cfg *Config, hooks storageHooks) error {
	path := filepath.Join(s.dir, votesFile)
	if err := mustExist(path, s.id.Bootstrapped); err != nil {
		return err
	}
	if err := checkBolt(path, checkVote(path)); err != nil {
		return err
	}
	return sheltered(path, func() (err error) {
		if s.votes, err = openBolt(path); err != nil {
			return asDamage(path, "it cannot be opened", err)
		}
		s.stable = &checkedStable{s.votes, path, s.watch, s.fault, hooks.fatal}
		if cfg.tuning.wrapVotes != nil {
			s.stable.StableStore = cfg.tuning.wrapVotes(s.votes)
		}
		return nil
	})
}

func (s *storage) openLog(cfg *Config, hooks storageHooks, hlog hclog.Logger) error {
	path, other, otherStore := filepath.Join(s.dir, walDir), filepath.Join(s.dir, boltFile), LogStoreBolt
	if cfg.LogStore == LogStoreBolt {
		path, other, otherStore = other, path, LogStoreWAL
	}
	if _, err := os.Stat(other); err == nil {
		return fmt.Errorf("the log of %s is kept by the %s store: start with that one, or with an empty directory", s.dir, otherStore)
	}
	if err := mustExist(path, s.id.Bootstrapped); err != nil {
		return err
	}
	mark, err := openLogMark(filepath.Join(s.dir, markFile))
	if err != nil {
		return err
	}
	s.log = &checkedLog{
		path: path, mark: mark, watch: s.watch, fault: s.fault, fsync: hooks.fsync,
		leads: hooks.leads, late: &lateFlush{fault: s.fault},
	}
	return sheltered(path, func() (err error) {
		if cfg.LogStore == LogStoreBolt {
			if err := checkBolt(path, nil); err != nil {
				return err
			}
			s.log.logStore, err = openBolt(path)
		} else {
			s.log.putsOff = true
			s.log.logStore, err = openWAL(path, cfg.tuning, s.log.late, hlog)
		}
		if err != nil {
			s.log.logStore = nil
			return asDamage(path, "it cannot be opened", err)
		}
		if cfg.tuning.wrapLog != nil {
			s.log.logStore = cfg.tuning.wrapLog(s.log.logStore)
		}
		if err := s.log.verify(s.snapshotIndex()); err != nil {
			return err
		}
		s.cache, err = raft.NewLogCache(logCacheEntries, s.log)
		return err
	})
}

func openBolt(path string) (*raftboltdb.BoltStore, error) {
	return raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second,
	}})
}

func openWAL(path string, t tuning, late *lateFlush, hlog hclog.Logger) (logStore, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := checkBolt(filepath.Join(path, metadb.FileName), nil); err != nil {
		return nil, err
	}
	w, err := wal.Open(path, wal.WithSegmentSize(t.segment), wal.WithLogger(hlog.Named("wal")),
		wal.WithSegmentFiler(segment.NewFiler(path, &lateFS{t.files, late})), wal.WithMetaStore(&lateMeta{late: late}))
	if err != nil {
		return nil, err
	}
	return w, nil
}

// asDamage is what a file is over which its reader stumbles, unless it is the
// disk that fails.
func asDamage(path, what string, err error) error {
	damaged, failing := damagedError{}, diskError{}
	switch {
	case errors.As(err, &damaged) || errors.As(err, &failing):
		return err
	case fromDisk(err):
		return diskError{path, false, err}
	}
	return damagedError{path, what, err}
}

// mustExist refuses a file that has been there and is gone.
func mustExist(path string, must bool) error {
	if _, err := os.Stat(path); err != nil && must {
		return asDamage(path, "it is missing", err)
	}
	return nil
}

// sheltered runs f, which reads a file that may be damaged in ways that its
// reader did not think of: a panic, or a memory fault past the end of a file,
// is one more sort of damage.
func sheltered(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if err = readThrough(path); !fromDisk(err) {
				err = fmt.Errorf("%v", r)
			}
			err = asDamage(path, "it cannot be read", err)
		}
	}()
	return f()
}

// openSnapshots opens the store of snapshots and checks the newest against its
// checksum. Raft would fall back to an older one without a word.
func (s *storage) openSnapshots(hlog hclog.Logger) (err error) {
	if s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(s.dir, snapshotsKept, hlog.Named("snapshots")); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, snapshotsDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
		case strings.HasSuffix(e.Name(), ".tmp"): // unfinished when the process ended
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		default:
			if _, err := readSnapshotMeta(filepath.Join(path, "meta.json")); err != nil {
				return err
			}
		}
	}
	metas, err := s.snapshots.List()
	if err != nil || len(metas) == 0 {
		return err
	}
	s.newest = metas[0]
	_, r, err := s.snapshots.Open(s.newest.ID)
	if err != nil {
		return asDamage(s.newestPath(), "it does not have its checksum", err)
	}
	return r.Close()
}

func readSnapshotMeta(path string) (*raft.SnapshotMeta, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, asDamage(path, "it cannot be read", err)
	}
	meta := new(raft.SnapshotMeta)
	if err := json.Unmarshal(data, meta); err != nil {
		return nil, damagedError{path, "it cannot be read", err}
	}
	return meta, nil
}

func (s *storage) snapshotIndex() uint64 {
	if s.newest == nil {
		return 0
	}
	return s.newest.Index
}

// newestPath is the file of the newest snapshot.
func (s *storage) newestPath() string {
	if s.newest == nil {
		return filepath.Join(s.dir, snapshotsDir)
	}
	return filepath.Join(s.dir, snapshotsDir, s.newest.ID, "state.bin")
}

func (s *storage) hasState() (bool, error) {
	return raft.HasExistingState(s.cache, s.stable, s.snapshots)
}

// close releases everything that was opened.
func (s *storage) close() {
	if s.log != nil {
		s.log.late.close()
		if s.log.logStore != nil {
			s.log.logStore.Close()
		}
		s.log.mark.Close()
	}
	if s.votes != nil {
		s.votes.Close()
	}
	if s.lock != nil {
		s.lock.Close()
	}
}

// logClose logs what went wrong with something that is closed anyway.
func logClose(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Warn("closing "+what, "error", err)
	}
}
