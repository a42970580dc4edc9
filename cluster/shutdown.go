package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

const drainTime = 2 * time.Second // for calls that are under way at shutdown

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
		if err := n.handOver(ctx, anybody); err != nil {
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

// enter admits a call, unless the node is closing.
func (n *Node) enter() bool {
	n.gateMu.Lock()
	defer n.gateMu.Unlock()
	if !n.shut {
		n.active++
	}
	return !n.shut
}

func (n *Node) exit() {
	n.gateMu.Lock()
	defer n.gateMu.Unlock()
	n.active--
	if n.shut && n.active == 0 {
		close(n.empty)
	}
}

// shutGate lets no new call in.
func (n *Node) shutGate() {
	n.gateMu.Lock()
	defer n.gateMu.Unlock()
	if n.shut {
		return
	}
	n.shut = true
	close(n.closing)
	if n.active == 0 {
		close(n.empty)
	}
}

const (
	goodbyeTime = time.Second
	lingerTime  = 200 * time.Millisecond
	lingerLook  = 5 * time.Millisecond
)

// sayGoodbye goes on answering the followers until they are likely to know the
// next leader: what one sends into a connection that is then closed has an
// unknown outcome for it.
func (n *Node) sayGoodbye(ctx context.Context) {
	known, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	n.awaitSuccessor(known)
	select {
	case <-time.After(lingerTime):
	case <-ctx.Done():
	}
	over, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	look := time.NewTicker(lingerLook)
	defer look.Stop()
	for over.Err() == nil && !n.answered() {
		<-look.C
	}
}

// awaitSuccessor waits until another node leads, as far as this one knows.
func (n *Node) awaitSuccessor(ctx context.Context) {
	for {
		changed := n.leaderChanged.wait()
		if id := n.leaderID(); id != "" && id != n.self {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
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
