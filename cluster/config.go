package cluster

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"

	"github.com/spoolraft/spoolraft/fsm"
)

// The stores that can hold the log.
const (
	LogStoreWAL  = "wal"
	LogStoreBolt = "bolt"
)

const maxNodeIDBytes = 64

// Config says how a node runs.
type Config struct {
	NodeID  string // names the node for good, also in a new data directory
	DataDir string

	PeerListen string // host:port for raft and forwarding
	Advertise  string // host or host:port that peers dial; "": derived from PeerListen

	Gossip    GossipConfig // used where Discovery is nil
	Discovery Discovery    // nil: gossip
	Network   Network      // nil: TCP

	// Clock stamps log time. It measures no timeout. nil: time.Now.
	Clock func() time.Time

	Expect   int    // how many nodes found the cluster; matters at the first start only
	LogStore string // LogStoreWAL ("" too) or LogStoreBolt

	// What the node tells about itself to who asks for the state of the cluster.
	Version string // of the program
	API     string // host:port at which it takes calls; a host that is left out is that of the peer port

	// Caps of the default spool, set by a leader where they differ. nil leaves
	// them as they are.
	Caps *fsm.Caps

	// SnapshotBytes is how much the log grows between snapshots, at least. 0: a
	// default. Less of it costs more writing and saves less than it seems.
	SnapshotBytes int64

	Logger *slog.Logger // nil: silent

	tuning tuning // zero: defaultTuning
}

// GossipConfig says how a node finds others.
type GossipConfig struct {
	Listen string   // host:port, both for TCP and UDP
	Join   []string // host[:port] of some other nodes
}

// tuning holds what only tests set otherwise.
type tuning struct {
	heartbeat, lease time.Duration // of raft
	rpcTimeout       time.Duration // of raft's transport

	leaderWait     time.Duration // how long a command waits for a leader before it is refused
	callTimeout    time.Duration // of a caller without a deadline
	pingInterval   time.Duration // between peers
	peerTimeout    time.Duration // after which a silent connection is closed
	confirmTimeout time.Duration // of one round that verifies leadership
	turnTimeout    time.Duration // how long a woken waiter has the first go at a message

	goneAfter time.Duration // of silence before a node is reported, and its place taken by another of its name
	levelFor  time.Duration // how long a new node has to keep up before it votes

	storeSlow, storeDead time.Duration // of a write that hangs: give up leadership, give up
	minFreeBytes         uint64        // below, the leader refuses writes
	snapshotBytes        int64         // of log between snapshots, at least
	clockLimit           time.Duration // of a leader, from the majority

	// What lies on the disk, as a test would have it.
	wrapLog   func(logStore) logStore
	wrapVotes func(raft.StableStore) raft.StableStore
	files     types.VFS // under the WAL

	diskFree func(string) (uint64, error) // of the file system that holds a path
	segment  int                          // bytes of a WAL segment
}

func defaultTuning() tuning {
	return tuning{
		heartbeat: 750 * time.Millisecond, lease: 500 * time.Millisecond, rpcTimeout: 3 * time.Second,
		leaderWait: 3 * time.Second, callTimeout: 10 * time.Second,
		pingInterval: 500 * time.Millisecond, peerTimeout: 2500 * time.Millisecond,
		confirmTimeout: 2 * time.Second, turnTimeout: time.Second,
		goneAfter: 5 * time.Second, levelFor: time.Second,
		storeSlow: 5 * time.Second, storeDead: 15 * time.Second,
		minFreeBytes: 64 << 20, snapshotBytes: 64 << 20, clockLimit: 5 * time.Second,
		diskFree: diskFree, files: fs.New(), segment: 32 << 20,
	}
}

// complete fills in what may be left out and refuses what cannot work.
func (c *Config) complete() error {
	if !validNodeID(c.NodeID) {
		return fmt.Errorf("node id %q: use 1 to %d characters of A-Z a-z 0-9 _ . -", c.NodeID, maxNodeIDBytes)
	}
	if c.DataDir == "" {
		return fmt.Errorf("no data directory given")
	}
	if c.PeerListen == "" {
		return fmt.Errorf("no address for the peer port given")
	}
	if c.LogStore == "" {
		c.LogStore = LogStoreWAL
	}
	if c.LogStore != LogStoreWAL && c.LogStore != LogStoreBolt {
		return fmt.Errorf("log store %q: use %s or %s", c.LogStore, LogStoreWAL, LogStoreBolt)
	}
	if c.Expect < 0 || c.Expect > maxFounders {
		return fmt.Errorf("%d expected nodes: use 1 to %d", c.Expect, maxFounders)
	}
	if c.Expect == 0 {
		c.Expect = 1
	}
	if c.Network == nil {
		c.Network = tcpNetwork{}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.tuning.heartbeat == 0 {
		c.tuning = defaultTuning()
	}
	if c.SnapshotBytes > 0 {
		c.tuning.snapshotBytes = c.SnapshotBytes
	}
	return nil
}

func validNodeID(s string) bool {
	return s != "" && len(s) <= maxNodeIDBytes && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-')
	}) < 0
}
