package cluster

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// refusingLog is a disk without room while it is told to be.
type refusingLog struct {
	logStore
	full    atomic.Bool
	refused atomic.Int64
}

func (r *refusingLog) StoreLogs(logs []*raft.Log) error {
	if r.full.Load() {
		r.refused.Add(1)
		return &os.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC}
	}
	return r.logStore.StoreLogs(logs)
}

func (r *refusingLog) IsMonotonic() bool { return true }

// TestReplicationGoesOnAfterARefusal has a follower answer failure to appends, as
// one without room does, again and again: the others go on meanwhile, and so does
// replication to it afterwards, under the same leader.
func TestReplicationGoesOnAfterARefusal(t *testing.T) {
	long(t)
	t.Parallel()
	disks := make(map[string]*refusingLog)
	c := newCluster(t, 3, func(name string, cfg *Config) {
		cfg.tuning.wrapLog = func(s logStore) logStore {
			disks[name] = &refusingLog{logStore: s}
			return disks[name]
		}
	})
	makeQueue(t, c.nodes["a"], "q")
	leader := c.leader()
	term := leader.Status().Term
	follower := c.nodes[c.otherNames(name(leader))[0]]
	disk, sent := disks[name(follower)], 0
	send := func() {
		mustDo(t, leader, keyed("q", key(sent), strings.Repeat("x", 1000)))
		sent++
	}
	for range 3 {
		disk.full.Store(true)
		before := disk.refused.Load()
		eventually(t, "the follower has refused", func() bool {
			send()
			return disk.refused.Load() > before+1
		})
		disk.full.Store(false)
		send()
		last := leader.Status().AppliedIndex
		eventually(t, "the follower has what it refused", func() bool { return follower.Status().AppliedIndex >= last })
	}
	c.settled()
	if s := stats(t, follower, "q"); s.Total != uint64(sent) {
		t.Errorf("%d messages, want %d", s.Total, sent)
	}
	if now := c.leader(); now != leader || now.Status().Term != term {
		t.Errorf("%s led in term %d, and now %s in term %d", name(leader), term, name(now), now.Status().Term)
	}
}
