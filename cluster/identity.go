package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	identityFile   = "node.json"
	lockFile       = "lock"
	identityFormat = 1
)

// raftID is a node as raft knows it: "<node>/<instance>". Raft is given it as
// the server's id and as its address.
type raftID string

func makeRaftID(node, instance string) raftID { return raftID(node + "/" + instance) }

func (r raftID) node() string {
	node, _, _ := strings.Cut(string(r), "/")
	return node
}

func (r raftID) instance() string {
	_, instance, _ := strings.Cut(string(r), "/")
	return instance
}

// identity is what a data directory remembers about its node.
type identity struct {
	Format       int      `json:"format"`
	NodeID       string   `json:"nodeId"`
	InstanceID   string   `json:"instanceId"` // made with the directory
	ClusterID    string   `json:"clusterId,omitempty"`
	Founders     []raftID `json:"founders,omitempty"` // of the cluster, until it is formed here
	Bootstrapped bool     `json:"bootstrapped,omitempty"`
	Joining      bool     `json:"joining,omitempty"`   // asked to be taken in; no member yet
	Started      int64    `json:"started,omitempty"`   // of the latest start
	Removed      bool     `json:"removed,omitempty"`   // from the cluster, for good
	Successor    string   `json:"successor,omitempty"` // the cluster that was recovered from this directory
}

// ErrRemoved says that a node's data directory has no place in the cluster any more.
var ErrRemoved = errors.New("this node was removed from the cluster, and its data directory is of no use any more. If the node is needed again, " +
	"start it with an empty directory: it joins as a new one. Should another have its node id by now, give it an id of its own")

// ended is why no node may run on the directory any more, nil where one may.
func (i *identity) ended(dir string) error {
	switch {
	case i.Successor != "":
		return fmt.Errorf("the cluster %s was recovered from %s: start the node on the directory that was made then. "+
			"A node that ran on this one could answer for a cluster that was given up", i.Successor, dir)
	case i.Removed:
		return fmt.Errorf("%s: %w", dir, ErrRemoved)
	}
	return nil
}

// start notes that the node starts. The number grows with every start, and is
// the time in milliseconds as far as that allows, so that it grows too where a
// directory was put back from a copy.
func (i *identity) start(dir string, now time.Time) error {
	i.Started = max(i.Started+1, now.UnixMilli())
	return i.save(dir)
}

func (i *identity) raftID() raftID { return makeRaftID(i.NodeID, i.InstanceID) }

// loadIdentity reads the identity of dir, or makes one in an empty directory.
func loadIdentity(dir, nodeID string) (*identity, error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		for _, name := range [...]string{votesFile, walDir, boltFile, snapshotsDir} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return nil, damagedError{path, "it is missing, while the directory holds data", nil}
			}
		}
		id := &identity{Format: identityFormat, NodeID: nodeID, InstanceID: randomHex(8)}
		return id, id.save(dir)
	}
	if err != nil {
		return nil, err
	}
	id := new(identity)
	if err := json.Unmarshal(data, id); err != nil {
		return nil, damagedError{path, "it cannot be read", err}
	}
	switch {
	case id.Format != identityFormat:
		return nil, fmt.Errorf("%s has format %d, this version knows %d: run the version that wrote it", path, id.Format, identityFormat)
	case !validNodeID(id.NodeID) || len(id.InstanceID) != 16:
		return nil, damagedError{path, "it names no node", nil}
	case id.NodeID != nodeID:
		return nil, fmt.Errorf("%s is the data directory of node %q, not of %q: start with its own node id, or with another directory", dir, id.NodeID, nodeID)
	}
	return id, nil
}

// save writes the identity so that after a crash either the old or the new one
// is there.
func (i *identity) save(dir string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(dir, identityFile), append(data, '\n'))
}

func writeFileAtomic(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// lockDir keeps a second process out of dir.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another process uses the data directory %s: stop it, or use another directory", dir)
	}
	return f, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// damagedError says that a file is not as this node left it.
type damagedError struct {
	path string
	what string
	err  error
}

func (e damagedError) Error() string {
	s := fmt.Sprintf("%s is damaged: %s", e.path, e.what)
	if e.err != nil {
		s += fmt.Sprintf(" (%v)", e.err)
	}
	return s + "; this node does not start on it. Put back the data directory as it was; or, while the other nodes are a majority, " +
		"move it away and start this node again with an empty one: it is taken in again under its name"
}

func (e damagedError) Unwrap() error { return e.err }
