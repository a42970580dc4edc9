package cluster

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

// Remains is what a stopped node has left of a cluster whose majority is lost.
type Remains struct {
	NodeID, InstanceID, ClusterID string
	Members                       []string // "<node>/<instance> <suffrage>", as the log has them
	LastIndex, LastTerm           uint64   // of the log
	NowMs                         int64    // log time at its end
	Queues, Messages              int
	Removed                       bool   // the node was removed from the cluster
	Successor                     string // a cluster was recovered from it before

	i        *Inspection
	id       *identity
	logStore string
	m        *fsm.Machine
}

// Examine reads all that is in the data directory of a node that does not run,
// and changes nothing. What is damaged is an error.
func Examine(dir string) (r *Remains, err error) {
	i, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	r = &Remains{NodeID: i.NodeID, InstanceID: i.InstanceID, ClusterID: i.ClusterID, i: i, logStore: LogStoreWAL}
	if exists(filepath.Join(dir, boltFile)) {
		r.logStore = LogStoreBolt
	}
	r.replay()
	if d := i.Damages(); len(d) > 0 {
		return nil, fmt.Errorf("%s: nothing can be recovered from a directory that is damaged. Use that of another node", d[0])
	}
	if r.id, err = loadIdentity(dir, i.NodeID); err != nil {
		return nil, err
	}
	if r.ClusterID == "" || r.m == nil || r.m.ClusterID() != r.ClusterID {
		return nil, fmt.Errorf("%s: this node had not received anything of a cluster", dir)
	}
	r.Removed, r.Successor = r.id.Removed, r.id.Successor
	return r, nil
}

// replay applies the log to the newest snapshot.
func (r *Remains) replay() {
	from := uint64(1)
	for _, s := range r.i.snapshots {
		from = s.Index + 1
		r.LastIndex, r.LastTerm, r.Members = s.Index, s.Term, nil
		for _, server := range s.Configuration.Servers {
			r.Members = append(r.Members, fmt.Sprintf("%s %s", server.ID, server.Suffrage))
		}
	}
	s := r.i.base(from)
	for e := range r.i.Entries(from, math.MaxUint64) {
		s.apply(r.i, &e)
		r.LastIndex, r.LastTerm = e.Index, e.Term
		if e.Kind == EntryConfiguration {
			r.Members = e.Members
		}
	}
	if r.m = s.m; r.m == nil {
		return
	}
	r.NowMs = r.m.NowMs()
	for q := range r.m.Image().Queues() {
		r.Queues++
		for range q.Messages() {
			r.Messages++
		}
	}
}

// Close lets a node use the directory again.
func (r *Remains) Close() { r.i.Close() }

// Recover founds a cluster of this node alone, which goes on from what is left,
// in a directory that is made for it. The old directory is kept, and no node
// starts on it any more. The new cluster has an id of its own and the node
// another instance, so that no member of the old one can take part in it.
func (r *Remains) Recover(into string) (clusterID string, err error) {
	if err := mustBeFree(into); err != nil {
		return "", err
	}
	made := filepath.Clean(into) + ".tmp"
	if err := os.RemoveAll(made); err != nil {
		return "", err
	}
	if clusterID, err = r.found(made); err != nil {
		os.RemoveAll(made)
		return "", err
	}
	r.id.Successor = clusterID
	if err := r.id.save(r.i.dir); err != nil {
		os.RemoveAll(made)
		return "", fmt.Errorf("cannot note in %s that the cluster was recovered from it, so that it was not: %w", r.i.dir, err)
	}
	if err := os.Rename(made, into); err != nil {
		return "", err
	}
	return clusterID, syncDir(filepath.Dir(filepath.Clean(into)))
}

func mustBeFree(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: name a directory that does not exist", dir)
	}
	return nil
}

// found writes the data directory of the new cluster's only node: an identity, and
// a snapshot in place of the log.
func (r *Remains) found(dir string) (clusterID string, err error) {
	cfg := Config{NodeID: r.NodeID, DataDir: dir, PeerListen: ":0", LogStore: r.logStore}
	if err := cfg.complete(); err != nil {
		return "", err
	}
	hooks := storageHooks{fsync: func(time.Duration) {}, silence: func(bool) {}, fatal: func(error) {}}
	s, err := openStorage(&cfg, hooks, hclog.NewNullLogger())
	if err != nil {
		return "", err
	}
	defer s.close()
	self := s.id.raftID()
	clusterID = clusterIDOf([]raftID{self})
	var secret fsm.Secret
	rand.Read(secret[:])
	r.m.Succeed(clusterID, secret)
	if err := r.writeSnapshot(s.snapshots, self); err != nil {
		return "", err
	}
	// A term never goes back behind that of an entry.
	if err := s.stable.write([]byte("CurrentTerm"), binary.BigEndian.AppendUint64(nil, r.LastTerm)); err != nil {
		return "", err
	}
	s.id.ClusterID, s.id.Bootstrapped = clusterID, true
	return clusterID, s.id.save(dir)
}

func (r *Remains) writeSnapshot(to *raft.FileSnapshotStore, self raftID) error {
	servers := []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(self), Address: raft.ServerAddress(self)}}
	_, names := raft.NewInmemTransport(raft.ServerAddress(self)) // addresses are ids, see transport
	sink, err := to.Create(1, r.LastIndex, r.LastTerm, raft.Configuration{Servers: servers}, r.LastIndex, names)
	if err != nil {
		return err
	}
	if err := snapshot.Write(sink, r.m.Image()); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

// Lost names the members that would be given up, "" where there are none.
func (r *Remains) Lost() string {
	var names []string
	for _, m := range r.Members {
		if id, _, _ := strings.Cut(m, " "); id != string(makeRaftID(r.NodeID, r.InstanceID)) {
			names = append(names, raftID(id).node())
		}
	}
	return strings.Join(names, ", ")
}
