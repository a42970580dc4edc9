package cluster

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const timeStep = 100 * time.Millisecond

// advanceTime proposes an empty entry when something is due that no traffic
// brings about: an expiry, or more of them than one entry takes care of.
func (n *Node) advanceTime(stop <-chan struct{}) {
	tick := time.NewTicker(timeStep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		n.batcher.look()
		if n.office.Load() == nil || !n.batcher.idle() || !n.replica.due() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.tuning.confirmTimeout)
		if n.confirmed(ctx) {
			n.batcher.advance()
		}
		cancel()
	}
}

const (
	clockLook = 2 * time.Second
	maxRTT    = time.Second // beyond it a peer's clock is not known well enough
)

// watchClock has a leader hand over whose clock is far from the majority's,
// since log time follows the leader.
func (n *Node) watchClock(stop <-chan struct{}) {
	for off := 0; ; {
		select {
		case <-time.After(min(clockLook, 4*n.cfg.tuning.pingInterval)):
		case <-stop:
			return
		}
		r := n.raft.Load()
		offset, known := n.clockOffset()
		n.metrics.clockOffset.Set(offset.Seconds())
		if !known || offset.Abs() <= n.cfg.tuning.clockLimit || r.State() != raft.Leader {
			off = 0
			continue
		}
		if off++; off < 2 {
			continue
		}
		off = 0
		n.log.Error("the clock of this leader is far from that of the others: check time synchronisation", "offset", offset)
		err := n.handOver(context.Background(), func(_ raftID, v peerView) bool { return (v.offset - offset).Abs() <= n.cfg.tuning.clockLimit })
		if err != nil {
			n.log.Warn("leadership was not handed over", "error", err)
		}
	}
}

// watchSpace has a leader without room on its disk hand over to a voter that has
// room. Where nobody has, it stays and refuses writes.
func (n *Node) watchSpace(stop <-chan struct{}) {
	tick := time.NewTicker(min(time.Second, 2*n.cfg.tuning.pingInterval))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		if !n.disk.full.Load() || n.office.Load() == nil {
			continue
		}
		err := n.handOver(context.Background(), func(_ raftID, v peerView) bool {
			return !v.Full && time.Since(v.at) < n.cfg.tuning.peerTimeout
		})
		if err != nil && err != errNoSuccessor {
			n.log.Warn("leadership was not handed over", "error", err)
		}
	}
}

// clockOffset is how far the majority's clocks are from this node's: the median
// over all voters, where a majority is heard.
func (n *Node) clockOffset() (offset time.Duration, known bool) {
	voters := n.voters()
	offsets := []time.Duration{0}
	for _, id := range voters {
		if v, ok := n.mesh.view(id); ok && v.rtt <= maxRTT && time.Since(v.at) < n.cfg.tuning.peerTimeout {
			offsets = append(offsets, v.offset)
		}
	}
	if len(offsets) <= (len(voters)+1)/2 || len(offsets) < 2 {
		return 0, false
	}
	slices.Sort(offsets)
	mid := int(math.Floor(float64(len(offsets)) / 2))
	if len(offsets)%2 == 0 {
		return (offsets[mid-1] + offsets[mid]) / 2, true
	}
	return offsets[mid], true
}
