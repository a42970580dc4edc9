package cluster

import (
	"encoding/json"
	"time"
)

// vitals are what nodes tell each other every half second.
type vitals struct {
	Applied uint64 // index of the last entry applied
	Last    uint64 // index of the last entry in the log
	ClockMs int64
	Full    bool         `json:",omitempty"` // no room on the disk
	Hashes  []hashSample `json:",omitempty"`
}

const hashesPerPing = 8

func (n *Node) vitals() vitals {
	v := vitals{
		Applied: n.replica.index.Load(), ClockMs: n.cfg.Clock().UnixMilli(), Full: n.disk.full.Load(),
		Hashes: n.replica.hashes.latest(hashesPerPing),
	}
	if r := n.raft.Load(); r != nil {
		v.Last = r.LastIndex()
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
	answer, err := json.Marshal(s.n.vitals())
	if err != nil {
		return err
	}
	s.w.put(frame{framePong, f.id, answer})
	return nil
}

// peerView is what a node last heard of a peer.
type peerView struct {
	vitals
	at     time.Time     // when
	rtt    time.Duration // of that
	offset time.Duration // of the peer's clock from ours
}

// ping asks a peer for its vitals.
func (m *mesh) ping(l *link) {
	mine, err := json.Marshal(m.n.vitals())
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
		m.heard(l.peer, peerView{v, time.Now(), rtt, time.Duration(v.ClockMs-middle) * time.Millisecond})
		m.n.compareHashes(l.peer, v.Hashes)
		return true
	})
}

// compareHashes holds a peer's digests against this node's. States that differ at
// the same index will never be equal again, and every answer may be wrong.
func (n *Node) compareHashes(peer raftID, samples []hashSample) {
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
			return
		}
		n.log.Error("the states of two nodes differ although their logs do not: stop both, keep their data directories and report this",
			"peer", peer, "index", s.Index)
		return
	}
}
