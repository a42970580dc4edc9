package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

const (
	minTrailing = 128
	maxTrailing = 1 << 20

	snapshotLook  = time.Second
	snapshotRetry = 10 * time.Second
)

// takeSnapshots takes one whenever the log has grown by as much as the last one
// was large, and a minimum. As much of the log is kept behind it, so that a
// follower that installs a snapshot still finds the entries that come after.
func (n *Node) takeSnapshots(stop <-chan struct{}) {
	log := n.store.log
	at, size := int64(0), int64(0) // bytes in the log at the last one, and its size
	if n.store.newest != nil {
		size = n.store.newest.Size
	}
	due := 0
	for wait := snapshotLook; ; {
		select {
		case <-time.After(wait):
		case <-stop:
			return
		}
		wait = snapshotLook
		limit := max(n.cfg.tuning.snapshotBytes, size)
		now := log.bytes.Load()
		if now-at < limit {
			due = 0
			continue
		}
		if due++; !snapshotTurn(due, n.rank(), n.peerSaves(), now-at, limit) {
			continue
		}
		if err := n.takeSnapshot(now, limit); err != nil {
			n.metrics.snapshotFailures.Inc()
			n.log.Warn("no snapshot was taken; it will be tried again", "error", err)
			wait = snapshotRetry
			continue
		}
		at = now
		if metas, err := n.store.snapshots.List(); err == nil && len(metas) > 0 {
			size = metas[0].Size
		}
	}
}

// snapshotTurn reports whether a node whose snapshot has been due for some looks
// takes it now. Nodes have theirs due at the same time, and would slow down the
// whole cluster at once. So each waits for its rank, and for any other that is
// at it, but not for ever.
func snapshotTurn(looks, rank int, peerSaves bool, grown, limit int64) bool {
	return grown >= limit+limit/2 || (looks > rank && !peerSaves)
}

// rank is this node's place among the members.
func (n *Node) rank() (rank int) {
	for _, id := range n.others(false) {
		if id < n.self {
			rank++
		}
	}
	return rank
}

func (n *Node) peerSaves() bool {
	return slices.ContainsFunc(n.others(false), func(id raftID) bool {
		v, ok := n.mesh.view(id)
		return ok && v.Saving
	})
}

// takeSnapshot takes one of a log of some bytes, and keeps limit bytes of it.
func (n *Node) takeSnapshot(bytes, limit int64) error {
	n.saving.Store(true)
	defer n.saving.Store(false)
	r := n.raft.Load()
	c := r.ReloadableConfig()
	perEntry := max(1, bytes/max(1, n.store.log.entries.Load()))
	c.TrailingLogs = uint64(min(max(limit/perEntry, minTrailing), maxTrailing))
	if err := r.ReloadConfig(c); err != nil {
		return err
	}
	return r.Snapshot().Error()
}

type imageSnapshot struct {
	image     *fsm.Image
	pace      pace
	persisted func(int64, time.Duration)
}

// Persist implements raft.FSMSnapshot; raft cancels the sink on an error.
func (s *imageSnapshot) Persist(sink raft.SnapshotSink) error {
	start := time.Now()
	w := s.pace.writer(sink)
	defer w.close()
	if err := snapshot.Write(w, s.image); err != nil {
		return err
	}
	s.persisted(w.written, time.Since(start))
	return nil
}

// Release implements raft.FSMSnapshot.
func (s *imageSnapshot) Release() {}

// pace is how a node of a data directory writes its snapshots.
type pace struct {
	dataDir string
	stop    <-chan struct{}
}

const pieceBytes = 4 << 20

// pacedWriter writes a snapshot in pieces. Each is flushed by itself, so that no
// flush of the log waits for more than one, and followed by a rest as long as it
// took, so that a snapshot takes half of a core and half of the disk at most.
type pacedWriter struct {
	pace
	sink    raft.SnapshotSink
	file    *os.File // the sink's; nil: a sink without
	written int64
	piece   int64
	begun   time.Time
}

func (p pace) writer(sink raft.SnapshotSink) *pacedWriter {
	w := &pacedWriter{pace: p, sink: sink, begun: time.Now()}
	if f, err := os.OpenFile(filepath.Join(p.dataDir, snapshotsDir, sink.ID()+".tmp", "state.bin"), os.O_WRONLY, 0); err == nil {
		w.file = f
	}
	return w
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	n, err := w.sink.Write(b)
	w.written += int64(n)
	if w.piece += int64(n); err != nil || w.piece < pieceBytes {
		return n, err
	}
	if w.file != nil {
		if err := w.file.Sync(); err != nil {
			return n, err
		}
	}
	select {
	case <-time.After(time.Since(w.begun)):
	case <-w.stop:
		return n, errNodeClosing
	}
	w.piece, w.begun = 0, time.Now()
	return n, nil
}

func (w *pacedWriter) close() {
	if w.file != nil {
		w.file.Close()
	}
}
