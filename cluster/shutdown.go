package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

const (
	drainTime    = 2 * time.Second // for calls that are under way at shutdown
	handoverTime = 2 * time.Second
)

// Shutdown refuses new calls, finishes those under way, hands leadership over
// and stops. It waits no longer than ctx allows, except for what is quick.
func (n *Node) Shutdown(ctx context.Context) error {
	n.shutOnce.Do(func() { n.shutErr = n.shutdown(ctx) })
	return n.shutErr
}

func (n *Node) shutdown(ctx context.Context) error {
	n.shutGate()
	select {
	case <-n.empty:
	case <-time.After(drainTime):
	case <-ctx.Done():
	}
	n.runMu.Lock()
	n.ended = true
	n.runMu.Unlock()
	r := n.raft.Load()
	if r != nil && r.State() == raft.Leader && len(n.voters()) > 0 && !n.hasFailed.Load() {
		if err := n.TransferLeadership(ctx); err != nil {
			n.log.Warn("leadership was not handed over", "error", err)
		}
		n.sayGoodbye(ctx)
	}
	n.serversMu.Lock()
	n.stopped = true
	n.serversMu.Unlock()
	close(n.stop)
	var hung error
	if r != nil {
		n.batcher.close()
		hung = n.within(ctx, "raft", func() { r.Shutdown().Error() })
	}
	if n.transport != nil {
		n.transport.Close()
		n.transport.CloseStreams()
		n.stream.closeConns()
	}
	n.mesh.close()
	if n.acceptor != nil {
		n.acceptor.close()
		n.closeServers()
	}
	var err error
	if n.discovery != nil {
		logClose(n.log, "discovery", n.discovery.Close())
	}
	err = n.within(ctx, "background work", n.wg.Wait)
	if hung == nil && err == nil {
		n.store.close() // not under somebody who still writes
	}
	return errors.Join(hung, err)
}

const (
	goodbyeTime = time.Second
	lingerTime  = 200 * time.Millisecond
)

// sayGoodbye goes on answering the followers until they are likely to know the
// next leader: what one sends into a connection that is then closed has an
// unknown outcome for it.
func (n *Node) sayGoodbye(ctx context.Context) {
	for end := time.Now().Add(goodbyeTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if id := n.leaderID(); id != "" && id != n.self {
			break
		}
	}
	for end := time.Now().Add(lingerTime); ; time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil || (time.Now().After(end) && (n.answered() || time.Now().After(end.Add(goodbyeTime)))) {
			return
		}
	}
}

// answered reports whether all that peers have asked has been answered.
func (n *Node) answered() bool {
	n.serversMu.Lock()
	defer n.serversMu.Unlock()
	for s := range n.servers {
		if s.open.Load() > 0 || !s.w.idle() {
			return false
		}
	}
	return true
}

// closeServers ends the links of the peers. The caller has set stopped.
func (n *Node) closeServers() {
	n.serversMu.Lock()
	defer n.serversMu.Unlock()
	for s := range n.servers {
		s.conn.Close()
	}
}

// within runs f, but leaves it alone when ctx is over: a disk that hangs must
// not keep the process.
func (n *Node) within(ctx context.Context, what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New(what + " did not stop in time")
	}
}

var errNoSuccessor = errors.New("no other node is there to lead")

// TransferLeadership hands leadership to the voter that is furthest along.
func (n *Node) TransferLeadership(ctx context.Context) error {
	return n.handOver(ctx, func(peerView) bool { return true })
}

// handOver hands leadership to the best voter that is fit for it.
func (n *Node) handOver(ctx context.Context, fit func(peerView) bool) error {
	var to raftID
	var last uint64
	for _, id := range n.voters() {
		if v, ok := n.mesh.view(id); ok && n.mesh.link(id) != nil && fit(v) && (to == "" || v.Last > last) {
			to, last = id, v.Last
		}
	}
	r := n.raft.Load()
	if r == nil || to == "" {
		return errNoSuccessor
	}
	n.log.Info("handing leadership over", "to", to)
	resume := n.pause(ctx)
	defer resume()
	done := make(chan error, 1)
	go func() { done <- r.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to)).Error() }()
	select {
	case err := <-done:
		return err
	case <-time.After(handoverTime):
		return errors.New("the handover took too long")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause has the leader refuse commands and finish those in flight, which would
// otherwise have an unknown outcome when the lead goes. The function it returns
// has it accept commands again where it still leads.
func (n *Node) pause(ctx context.Context) (resume func()) {
	office := n.office.Load()
	n.batcher.serve(false)
	for end := time.Now().Add(handoverTime / 2); !n.batcher.idle() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return func() {
		n.officeMu.Lock()
		defer n.officeMu.Unlock()
		if office != nil && n.office.Load() == office {
			n.batcher.serve(true)
		}
	}
}
