package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"
)

// Inspection is the data directory of a stopped node, open to be looked at.
// Nothing in it is changed, and nothing of it needs to be whole: what is damaged
// is told, and the rest is read.
type Inspection struct {
	NodeID, InstanceID, ClusterID string

	dir       string
	lock      *os.File // nil: the directory has none
	log       logReader
	snapshots []raft.SnapshotMeta // by index
	damages   []Damage
}

// Damage is something in a data directory that is not as a node left it.
type Damage struct{ Path, What string }

func (d Damage) String() string { return d.Path + ": " + d.What }

// Inspect opens the data directory of a node that does not run.
func Inspect(dir string) (*Inspection, error) {
	i := &Inspection{dir: dir}
	err := i.open()
	if err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

func (i *Inspection) open() (err error) {
	if i.lock, err = lockToRead(i.dir); err != nil {
		return err
	}
	found := i.readIdentity()
	if err := i.findSnapshots(); err != nil {
		return err
	}
	wal, bolt := filepath.Join(i.dir, walDir), filepath.Join(i.dir, boltFile)
	switch {
	case exists(wal):
		i.log, err = readWAL(wal, i.damaged)
	case exists(bolt):
		i.log, err = readBolt(bolt, i.damaged)
	case found || len(i.snapshots) > 0:
		i.damaged(i.dir, fmt.Errorf("the log is missing: there is neither %s nor %s", walDir, boltFile))
	default:
		err = fmt.Errorf("%s is not the data directory of a node: it holds neither %s nor a log", i.dir, identityFile)
	}
	if err != nil {
		return err
	}
	if !found {
		i.damaged(filepath.Join(i.dir, identityFile), errors.New("it is missing"))
	}
	i.checkBase()
	return nil
}

// checkBase: what the log does not hold any more is in a snapshot.
func (i *Inspection) checkBase() {
	first, _ := i.Bounds()
	reaches := func(s raft.SnapshotMeta) bool { return s.Index+1 >= first }
	if first > 1 && !slices.ContainsFunc(i.snapshots, reaches) {
		i.damaged(filepath.Join(i.dir, snapshotsDir), fmt.Errorf("the log begins with entry %d, and no snapshot reaches that far", first))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockToRead keeps nodes out of dir while it is read.
func lockToRead(dir string) (*os.File, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory that can be read", dir)
	}
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // a copy of what matters
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("a node runs in %s and writes to it: stop the node first, and read the directory or a copy made then", dir)
	}
	return f, nil
}

// readIdentity reports whether there is one.
func (i *Inspection) readIdentity() bool {
	path := filepath.Join(i.dir, identityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	var id identity
	if err == nil {
		err = json.Unmarshal(data, &id)
	}
	if err != nil {
		i.damaged(path, err)
	}
	i.NodeID, i.InstanceID, i.ClusterID = id.NodeID, id.InstanceID, id.ClusterID
	return true
}

// findSnapshots lists the snapshots that were finished.
func (i *Inspection) findSnapshots() error {
	dir := filepath.Join(i.dir, snapshotsDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		path := filepath.Join(dir, e.Name(), "meta.json")
		meta, err := readSnapshotMeta(path)
		if err != nil {
			i.damaged(path, err)
			continue
		}
		meta.ID = e.Name()
		i.snapshots = append(i.snapshots, *meta)
	}
	slices.SortFunc(i.snapshots, func(a, b raft.SnapshotMeta) int {
		return strings.Compare(fmt.Sprintf("%020d %s", a.Index, a.ID), fmt.Sprintf("%020d %s", b.Index, b.ID))
	})
	return nil
}

// damaged notes what is wrong with a file.
func (i *Inspection) damaged(path string, err error) Damage {
	d := Damage{path, err.Error()}
	if known := (damagedError{}); errors.As(err, &known) {
		d = Damage{known.path, known.what}
		if known.err != nil {
			d.What += fmt.Sprintf(" (%v)", known.err)
		}
	}
	i.damages = append(i.damages, d)
	return d
}

// Damages is what was found damaged so far.
func (i *Inspection) Damages() []Damage { return i.damages }

// Bounds are the first and the last entry of the log, 0 where there is none.
func (i *Inspection) Bounds() (first, last uint64) {
	if i.log == nil {
		return 0, 0
	}
	return i.log.bounds()
}

// Close lets a node use the directory again.
func (i *Inspection) Close() {
	if i.log != nil {
		i.log.close()
	}
	if i.lock != nil {
		i.lock.Close()
	}
}
