package cluster

import (
	"encoding/json"
	"slices"
	"time"
)

// vitals are what nodes tell each other every half second.
type vitals struct {
	Applied uint64 // index of the last entry applied
	Commit  uint64 // index of the last entry that it knows to be committed
	Last    uint64 // index of the last entry in the log
	ClockMs int64
	Full    bool         `json:",omitempty"` // no room on the disk
	Saving  bool         `json:",omitempty"` // it takes a snapshot
	Settled bool         `json:",omitempty"` // it has noted that it is part of the cluster
	Removed bool         `json:",omitempty"` // the leader's word to a node that is no member any more
	Hashes  []hashSample `json:",omitempty"`

	Version string `json:",omitempty"`
	API     string `json:",omitempty"` // addresses; without a host: that of the peer port
	Gossip  string `json:",omitempty"`
}

const hashesPerPing = 8

func (n *Node) vitals() vitals {
	v := vitals{
		Applied: n.replica.index.Load(), ClockMs: n.cfg.Clock().UnixMilli(), Full: n.disk.full.Load(), Saving: n.saving.Load(),
		Settled: n.settled.Load(),
		Hashes:  n.replica.hashes.latest(hashesPerPing),
		Version: n.cfg.Version, API: n.cfg.API, Gossip: n.cfg.Gossip.Listen,
	}
	if r := n.raft.Load(); r != nil {
		v.Commit, v.Last = r.CommitIndex(), r.LastIndex()
	}
	index, hash := n.replica.hash()
	v.Hashes = append(v.Hashes, hashSample{index, hash})
	return v
}

func (s *server) ping(f frame) error {
	var v vitals
	if err := json.Unmarshal(f.payload, &v); err != nil {
		return err
	}
	s.n.compareHashes(s.peer, v.Hashes)
	pong := func(removed bool) {
		mine := s.n.vitals()
		mine.Removed = removed
		if answer, err := json.Marshal(mine); err == nil { // a struct of numbers and strings always encodes
			s.w.put(frame{framePong, f.id, answer})
		}
	}
	switch {
	case slices.Contains(s.n.others(false), s.peer):
		s.n.mesh.heardOf(s.peer)
		pong(false)
	case s.n.office.Load() == nil:
		pong(false)
	default:
		s.n.confirmer.confirm(func(leads bool) { pong(leads && s.n.hasLeft(s.peer)) })
	}
	return nil
}

// peerView is what a node last heard of a peer.
type peerView struct {
	vitals
	at      time.Time     // when
	rtt     time.Duration // of that
	lag     uint64        // entries that it is behind
	offset  time.Duration // of the peer's clock from ours
	differs bool          // its state was not ours at the same index
}

// ping asks a peer for its vitals.
func (m *mesh) ping(l *link) {
	sent := m.n.vitals()
	mine, err := json.Marshal(sent)
	if err != nil {
		return
	}
	start, startMs := time.Now(), m.n.cfg.Clock().UnixMilli()
	l.ask(framePing, mine, func(f frame, err error) bool {
		var v vitals
		if err != nil || f.typ != framePong || json.Unmarshal(f.payload, &v) != nil {
			return true
		}
		rtt := time.Since(start)
		middle := startMs + rtt.Milliseconds()/2
		m.heard(l.peer, peerView{
			vitals: v, at: time.Now(), rtt: rtt, lag: sent.Applied - min(sent.Applied, v.Applied),
			offset: time.Duration(v.ClockMs-middle) * time.Millisecond, differs: m.n.compareHashes(l.peer, v.Hashes),
		})
		if v.Removed {
			m.n.expelled(l.peer)
		}
		return true
	})
}

// compareHashes holds a peer's digests against this node's. States that differ at
// the same index will never be equal again, and every answer may be wrong.
func (n *Node) compareHashes(peer raftID, samples []hashSample) (differ bool) {
	index, hash := n.replica.hash()
	for _, s := range samples {
		mine, ok := n.replica.hashes.at(s.Index)
		if s.Index == index {
			mine, ok = hash, true
		}
		if !ok || mine == s.Hash || s.Index == 0 {
			continue
		}
		n.metrics.divergences.Inc()
		last, now := n.diverged.Load(), time.Now().UnixNano()
		if now-last < int64(time.Minute) || !n.diverged.CompareAndSwap(last, now) {
			return true
		}
		n.log.Error("the states of two nodes differ although their logs do not: stop both, keep their data directories and report this",
			"peer", peer, "index", s.Index)
		return true
	}
	return false
}
