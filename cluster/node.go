package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// Node is one member of a cluster, or on its way to become one.
type Node struct {
	cfg     Config
	log     *slog.Logger
	hlog    hclog.Logger
	self    raftID
	metrics *nodeMetrics

	store     *storage
	disk      *diskGuard
	acceptor  *acceptor
	dialer    *dialer
	stream    *streamLayer
	transport *transport
	discovery Discovery

	replica   *replica
	agreed    *raftFSM
	batcher   *batcher
	forwarder *forwarder
	waits     *waits
	confirmer *confirmer
	mesh      *mesh

	cluster       atomic.Value // string
	raft          atomic.Pointer[raft.Raft]
	office        atomic.Pointer[leadership] // while this node leads and serves
	officeMu      sync.Mutex                 // around entering and leaving it
	silent        atomic.Bool
	saving        atomic.Bool // a snapshot
	silence       chan bool   // from the watchdog
	leaderChanged broadcast
	runMu         sync.Mutex
	ended         bool         // raft is not to be started any more
	waiting       atomic.Value // string: why this node is in no cluster yet
	settled       atomic.Bool  // it has noted that it is in one
	removed       atomic.Bool  // it is in none any more, for good
	applicants    *applicants
	changing      chan struct{} // held by whoever changes the members
	caughtUp      atomic.Bool
	diverged      atomic.Int64 // when that was last logged, Unix nanoseconds
	heavyReads    chan struct{}

	gateMu  sync.Mutex
	active  int // calls inside
	shut    bool
	closing chan struct{} // no new calls
	empty   chan struct{} // closed when shut and no call is inside

	serversMu sync.Mutex
	servers   map[*server]struct{}
	stopped   bool

	calls     atomic.Uint64 // of several commands, to number them
	hasFailed atomic.Bool
	failed    chan error
	stop      chan struct{} // background work ends
	wg        sync.WaitGroup
	shutOnce  sync.Once
	shutErr   error
}

// Start opens the data directory and joins, or founds, the cluster in the
// background: until the expected nodes are there, the node refuses commands.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, hlog: raftLogger(cfg.Logger), metrics: newNodeMetrics(),
		silence: make(chan bool, 1), heavyReads: make(chan struct{}, maxHeavyReads), changing: make(chan struct{}, 1),
		closing: make(chan struct{}), empty: make(chan struct{}), servers: make(map[*server]struct{}),
		failed: make(chan error, 1), stop: make(chan struct{}),
	}
	n.cluster.Store("")
	n.waiting.Store("")
	hooks := storageHooks{fsync: n.metrics.fsynced, leads: n.isLeader, silence: n.keepSilent, fatal: n.fail, stop: n.stop}
	if n.store, err = openStorage(&n.cfg, hooks, n.hlog); err != nil {
		return nil, err
	}
	if err := n.store.id.ended(cfg.DataDir); err != nil {
		n.store.close()
		return nil, err
	}
	n.self = n.store.id.raftID()
	n.settled.Store(!n.store.id.Joining)
	n.cluster.Store(n.store.id.ClusterID)
	n.build()
	if err := n.open(); err != nil {
		n.Shutdown(ctx)
		return nil, err
	}
	return n, nil
}

// build makes the parts; none of them runs yet.
func (n *Node) build() {
	t := &n.cfg.tuning
	n.disk = &diskGuard{dir: n.cfg.DataDir, min: t.minFreeBytes, free: t.diskFree, log: n.log}
	n.batcher = newBatcher()
	n.replica = &replica{
		clusterID: n.clusterID, clock: n.cfg.Clock, log: n.log, fatal: n.fail, m: fsm.New(),
		flushed: n.store.log.late.await, applied: func(b *fsm.Batch) { n.waits.applied(b) }, answered: n.batcher.applied,
		pace: pace{n.cfg.DataDir, n.stop}, persisted: n.metrics.snapshotted,
	}
	n.agreed = newRaftFSM(n.replica, func() ([]*raft.SnapshotMeta, error) { return n.store.snapshots.List() }, n.dropped)
	n.batcher.raft, n.batcher.nowMs, n.batcher.full, n.batcher.observe = n.raft.Load, n.replica.nowMs, n.disk.full.Load, n.metrics.committed
	n.forwarder = &forwarder{leader: n.leaderLink, sent: func(k int) { n.metrics.forwardedOut.Add(float64(k)) }}
	n.waits = newWaits(n.replica.receivable, n.replica.queueName, t.turnTimeout)
	n.mesh = newMesh(n)
	n.applicants = newApplicants()
	n.confirmer = &confirmer{office: n.office.Load, voters: n.voters, peer: n.mesh.link, timeout: t.confirmTimeout}
	n.discovery = n.cfg.Discovery
	if n.discovery == nil {
		n.discovery = newGossip(n.cfg.Gossip, n.cfg.Advertise, n.cfg.DataDir, n.log)
	}
	n.dialer = &dialer{network: n.cfg.Network, discovery: n.discovery, self: n.self, cluster: n.clusterID, where: n.where}
}

// open opens the ports and starts what can start.
func (n *Node) open() error {
	ln, err := n.cfg.Network.Listen(n.cfg.PeerListen)
	if err != nil {
		n.discovery = nil // not started, so not to be closed
		return fmt.Errorf("cannot open the peer port: %w", err)
	}
	n.acceptor = newAcceptor(ln, n.self, n.admitted, n.serveLink, n.met, n.log)
	n.acceptor.start()
	n.stream = &streamLayer{dialer: n.dialer, in: n.acceptor, open: make(map[*raftConn]struct{}), settled: n.store.log.late.settled}
	if err := n.discovery.Start(n.announcement()); err != nil {
		n.discovery = nil
		return err
	}
	n.transport = &transport{limit: n.store.log.late.limit, stop: n.stop, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.stream, MaxPool: 4, MaxRPCsInFlight: 1, Timeout: n.cfg.tuning.rpcTimeout, Logger: n.hlog.Named("transport"),
		MsgpackUseNewTimeFormat: true,
	})}
	exists, err := n.store.hasState()
	if err != nil {
		return err
	}
	if exists || n.store.id.ClusterID != "" {
		return n.run(exists)
	}
	n.background(n.found)
	return nil
}

// admitted is the cluster whose nodes may connect, "" while there is nobody to
// talk to.
func (n *Node) admitted() string {
	if n.raft.Load() == nil {
		return ""
	}
	return n.clusterID()
}

func (n *Node) clusterID() string { return n.cluster.Load().(string) }

// announcement is what this node says of itself.
func (n *Node) announcement() Peer {
	id := n.store.id
	return Peer{
		NodeID: id.NodeID, InstanceID: id.InstanceID, ClusterID: n.clusterID(), HasState: n.clusterID() != "",
		Expect: n.cfg.Expect, Address: n.peerAddress(), Started: id.Started, Version: protocolVersion,
	}
}

// where is what this node says of itself whenever it calls a peer.
func (n *Node) where() (address string, started int64) { return n.peerAddress(), n.store.id.Started }

// met takes a member's word, given with a connection, for where it is: gossip
// can take long to hear of a member that is back with another address.
func (n *Node) met(p preamble, from net.Addr) {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil || p.address == "" || !slices.Contains(n.others(false), p.from) {
		return
	}
	n.discovery.Heard(Peer{
		NodeID: p.from.node(), InstanceID: p.from.instance(), Address: withHost(p.address, host), Started: p.started,
	})
}

// peerAddress is where peers find this node. A host that is left out is one that
// gossip fills in.
func (n *Node) peerAddress() string {
	host, port, err := net.SplitHostPort(n.acceptor.ln.Addr().String())
	if err != nil {
		return n.acceptor.ln.Addr().String()
	}
	if a := n.cfg.Advertise; a != "" {
		if _, _, err := net.SplitHostPort(a); err == nil {
			return a
		}
		return net.JoinHostPort(a, port)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = ""; n.cfg.Discovery != nil {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, port)
}

// run starts raft on what the data directory holds, after it has been given the
// founding configuration where it holds nothing yet.
func (n *Node) run(exists bool) error {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended {
		return errNodeClosing
	}
	r, err := n.newRaft(exists)
	if err != nil {
		return err
	}
	n.raft.Store(r)
	n.transport.raft.Store(r)
	n.wg.Add(2)
	go n.lead(r)
	go n.watchLeader(r)
	for _, f := range []func(<-chan struct{}){n.mesh.run, n.waits.run, n.disk.run, n.store.watch.run, n.advanceTime, n.watchClock, n.watchSpace, n.keepMembers, n.watchMembers, n.takeSnapshots} {
		n.background(func() { f(n.stop) })
	}
	if !n.settled.Load() {
		n.background(n.becomeMember)
	}
	n.batcher.start()
	return nil
}

// newRaft starts raft in a goroutine that ends over a disk that fails.
func (n *Node) newRaft(exists bool) (*raft.Raft, error) {
	type started struct {
		r   *raft.Raft
		err error
	}
	done := make(chan started, 1)
	go func() {
		defer close(done)
		r, err := n.startRaft(exists)
		done <- started{r, err}
	}()
	select {
	case s := <-done:
		return s.r, s.err
	case <-n.store.fault.struck:
	}
	n.background(func() {
		if s := <-done; s.r != nil { // it had just started
			s.r.Shutdown().Error()
		}
	})
	return nil, n.store.fault.err
}

func (n *Node) startRaft(exists bool) (*raft.Raft, error) {
	id := n.store.id
	conf := n.raftConfig()
	if !exists && !id.Joining {
		servers := make([]raft.Server, len(id.Founders))
		for i, f := range id.Founders {
			servers[i] = raft.Server{ID: raft.ServerID(f), Address: raft.ServerAddress(f)}
		}
		err := raft.BootstrapCluster(conf, n.store.cache, n.store.stable, n.store.snapshots, n.transport, raft.Configuration{Servers: servers})
		if err != nil {
			return nil, fmt.Errorf("cannot found the cluster: %w", err)
		}
	}
	if !id.Bootstrapped && !id.Joining {
		id.Bootstrapped, id.Founders = true, nil
		if err := id.save(n.cfg.DataDir); err != nil {
			return nil, err
		}
	}
	r, err := raft.NewRaft(conf, n.agreed, n.store.cache, n.store.stable, n.store.snapshots, n.transport)
	if failed := n.replica.err(); failed != nil {
		err = damagedError{n.store.newestPath(), "it cannot be restored", failed}
	}
	if err != nil {
		if r != nil {
			r.Shutdown().Error()
		}
		return nil, fmt.Errorf("cannot start on the data in %s: %w", n.cfg.DataDir, err)
	}
	return r, nil
}

func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.self)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = n.cfg.tuning.heartbeat, n.cfg.tuning.heartbeat, n.cfg.tuning.lease
	c.MaxAppendEntries = 16 // a batch is half a MiB; a request has to fit the transport's timeout
	c.SnapshotThreshold = 1 << 62
	c.TrailingLogs = minTrailing
	c.NoLegacyTelemetry = true
	c.Logger = n.hlog
	return c
}

// background runs f until the node stops. After that it does nothing.
func (n *Node) background(f func()) {
	n.serversMu.Lock()
	defer n.serversMu.Unlock()
	if n.stopped {
		return
	}
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		f()
	}()
}

// fail gives the node up: it serves nobody any more and waits to be shut down.
func (n *Node) fail(err error) {
	if n.giveUp(err) {
		n.log.Error("this node has failed", "error", err)
	}
}

// giveUp is fail without a word. It reports whether this was the first time.
func (n *Node) giveUp(err error) (first bool) {
	n.hasFailed.Store(true)
	n.shutGate()
	if n.stream != nil {
		n.stream.silence(true)
	}
	select {
	case n.failed <- err:
		return true
	default: // the first error counts
		return false
	}
}

// Failed yields an error when the node cannot go on. Its process should end.
func (n *Node) Failed() <-chan error { return n.failed }

// keepSilent is the watchdog's: a leader whose disk hangs must be none.
func (n *Node) keepSilent(on bool) {
	n.silent.Store(on)
	n.stream.silence(on)
	select {
	case n.silence <- on:
	case <-n.stop:
	}
}

func (n *Node) currentTerm() uint64 {
	if r := n.raft.Load(); r != nil {
		return r.CurrentTerm()
	}
	return 0
}

// Sealer makes and opens tokens. It is not ok until this node has the cluster's
// secret.
func (n *Node) Sealer() (fsm.Sealer, bool) { return n.replica.sealer() }

// SpoolState is this node's own view of a spool.
func (n *Node) SpoolState(spool string) fsm.Code { return n.replica.spoolState(spool) }
