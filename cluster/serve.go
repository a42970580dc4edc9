package cluster

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"

	"github.com/spoolraft/spoolraft/fsm"
)

// server is the answering end of a peer's link.
type server struct {
	n    *Node
	peer raftID
	conn net.Conn
	w    *frameWriter

	waits map[uint64]*waiter // by request; the reader's own
	open  atomic.Int64       // proposals without an answer
}

// serveLink answers a peer until its link ends.
func (n *Node) serveLink(peer raftID, conn net.Conn) {
	s := &server{n: n, peer: peer, conn: conn, w: newFrameWriter(conn), waits: make(map[uint64]*waiter)}
	n.serversMu.Lock()
	if n.stopped {
		n.serversMu.Unlock()
		conn.Close()
		return
	}
	n.servers[s] = struct{}{}
	n.wg.Add(2)
	n.serversMu.Unlock()
	go func() {
		defer n.wg.Done()
		if s.w.run() != nil {
			conn.Close()
		}
	}()
	go func() {
		defer n.wg.Done()
		s.read()
		n.serversMu.Lock()
		delete(n.servers, s)
		n.serversMu.Unlock()
	}()
}

func (s *server) read() {
	r := bufio.NewReaderSize(s.conn, coalesceBytes)
	for {
		f, err := readFrame(r)
		if err == nil {
			err = s.handle(f)
		}
		if err != nil {
			break
		}
	}
	s.conn.Close()
	s.w.close()
	for _, w := range s.waits {
		s.n.waits.end(w)
	}
}

// handle answers one request, now or later, and never blocks on anything but
// the machine's lock. An error ends the link.
func (s *server) handle(f frame) error {
	switch f.typ {
	case framePropose:
		return s.propose(f)
	case frameRead:
		return s.query(f)
	case frameWait:
		return s.wait(f)
	case frameForget:
		s.forget(f.id)
		return nil
	case frameConfirm:
		s.w.put(frame{frameTerm, f.id, binary.BigEndian.AppendUint64(nil, s.n.currentTerm())})
		return nil
	case framePing:
		return s.ping(f)
	case frameJoin:
		return s.join(f)
	case frameAdmin:
		return s.administer(f)
	default:
		return errBadFrame
	}
}

// forwarded is the sink of a batch that a follower forwarded.
type forwarded struct {
	s    *server
	id   uint64
	mu   sync.Mutex
	left int
	outs []fsm.Outcome
}

func (s *server) propose(f frame) error {
	runs, cmds, err := decodeProposal(f.payload)
	if err != nil {
		return err
	}
	fw := &forwarded{s: s, id: f.id, left: len(cmds), outs: make([]fsm.Outcome, len(cmds))}
	all, items := make([]item, len(cmds)), make([]*item, len(cmds))
	slot := 0
	for _, run := range runs {
		var call callID
		if run.call != 0 {
			call = callID{s, run.call}
		}
		for range run.commands {
			i := &all[slot]
			i.cmd, i.to, i.slot, i.call = &cmds[slot], fw, slot, call
			items[slot] = i
			slot++
		}
	}
	s.open.Add(1)
	s.n.metrics.forwardedIn.Add(float64(len(cmds)))
	s.n.accept(items...)
	return nil
}

func (fw *forwarded) settle(slot int, r fsm.Result, err error) {
	fw.mu.Lock()
	fw.outs[slot] = fsm.Outcome{Result: r, Err: err}
	fw.left--
	done := fw.left == 0
	fw.mu.Unlock()
	if !done {
		return
	}
	splitResults(fw.outs, func(first int, part []fsm.Outcome) {
		fw.s.w.put(frame{frameResults, fw.id, appendResults(nil, first, part)})
	})
	fw.s.open.Add(-1)
}

// query answers a read once this node has made sure that it leads.
func (s *server) query(f frame) error {
	var q fsm.Query
	if err := json.Unmarshal(f.payload, &q); err != nil {
		return err
	}
	s.n.confirmer.confirm(func(leads bool) {
		if !leads {
			s.w.put(frame{frameAnswer, f.id, nil})
			return
		}
		answer := func() { s.w.put(frame{frameAnswer, f.id, encodeAnswer(s.n.replica.read(q))}) }
		if q.Light() {
			answer()
			return
		}
		go func() {
			s.n.heavyReads <- struct{}{}
			defer func() { <-s.n.heavyReads }()
			answer()
		}()
	})
	return nil
}

func (s *server) wait(f frame) error {
	spool, queue, err := decodeNames(f.payload)
	if err != nil {
		return err
	}
	if s.waits[f.id] != nil {
		return errBadFrame
	}
	s.waits[f.id] = s.n.waits.add(spool, queue, func(lost bool) {
		payload := []byte{0}
		if lost {
			payload[0] = 1
		}
		s.w.put(frame{frameWoken, f.id, payload})
	})
	return nil
}

func (s *server) forget(id uint64) {
	if w := s.waits[id]; w != nil {
		delete(s.waits, id)
		s.n.waits.end(w)
	}
}

// encodeAnswer keeps the payload out of the JSON, which cannot hold all bytes.
func encodeAnswer(a fsm.Answer) []byte {
	payload := a.Payload
	a.Payload = ""
	doc, err := json.Marshal(a)
	if err != nil {
		return nil
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(doc)+len(payload)), uint32(len(doc)))
	return append(append(b, doc...), payload...)
}

func decodeAnswer(data []byte) (a fsm.Answer, err error) {
	if len(data) == 0 {
		return a, errNotLeader
	}
	if len(data) < 4 || uint64(len(data)) < 4+uint64(binary.BigEndian.Uint32(data)) {
		return a, errBadFrame
	}
	end := 4 + binary.BigEndian.Uint32(data)
	if err := json.Unmarshal(data[4:end], &a); err != nil {
		return a, errBadFrame
	}
	a.Payload = string(data[end:])
	return a, nil
}
