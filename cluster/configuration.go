package cluster

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// configuration is raft's list of servers as one log entry left it.
type configuration struct {
	index   uint64 // of that entry
	servers []raft.Server
}

func (c *configuration) contains(id raftID) bool {
	return slices.ContainsFunc(c.servers, func(s raft.Server) bool { return raftID(s.ID) == id })
}

// raftFSM is what raft drives: the replica, and beside it the configuration that
// is committed. Asked for its configuration, raft tells the latest one, which may
// yet be undone, and in v1.7.3 always 0 for its index.
type raftFSM struct {
	*replica
	snapshots func() ([]*raft.SnapshotMeta, error) // the newest first
	dropped   func(raftID)                         // told of every server that has left
	committed atomic.Pointer[configuration]
}

func newRaftFSM(r *replica, snapshots func() ([]*raft.SnapshotMeta, error), dropped func(raftID)) *raftFSM {
	f := &raftFSM{replica: r, snapshots: snapshots, dropped: dropped}
	f.committed.Store(new(configuration))
	return f
}

// StoreConfiguration implements raft.ConfigurationStore.
func (f *raftFSM) StoreConfiguration(index uint64, c raft.Configuration) {
	now := &configuration{index, c.Servers}
	old := f.committed.Swap(now)
	for _, s := range old.servers {
		if id := raftID(s.ID); !now.contains(id) {
			f.dropped(id)
		}
	}
}

// Restore implements raft.FSM. The configuration of a snapshot is in its record,
// and the snapshot that raft restores is always the newest.
func (f *raftFSM) Restore(from io.ReadCloser) error {
	if err := f.replica.Restore(from); err != nil {
		return err
	}
	metas, err := f.snapshots()
	if err != nil {
		return fmt.Errorf("the record of a snapshot cannot be read: %w", err)
	}
	if len(metas) == 0 {
		return errors.New("the record of a snapshot is gone")
	}
	f.StoreConfiguration(metas[0].ConfigurationIndex, metas[0].Configuration)
	return nil
}
