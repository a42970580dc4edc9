package cluster

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errNotSent = errors.New("not sent")        // no byte of the request was written
	errBroken  = errors.New("link broke down") // the request may have arrived
)

// link is a connection to a peer over which this node asks. Answers come to
// callbacks on the link's reader, which therefore must not block.
type link struct {
	peer raftID
	conn net.Conn
	w    *frameWriter
	done chan struct{}

	heard atomic.Int64 // when the last frame came, Unix nanoseconds

	mu      sync.Mutex
	closed  bool
	nextID  uint64
	pending map[uint64]answerFunc
}

// answerFunc takes a frame that answers a request, or the error that ended it.
// It reports whether that was the last.
type answerFunc func(frame, error) (last bool)

func newLink(peer raftID, conn net.Conn) *link {
	l := &link{
		peer: peer, conn: conn, w: newFrameWriter(conn), done: make(chan struct{}),
		pending: make(map[uint64]answerFunc),
	}
	l.heard.Store(time.Now().UnixNano())
	go func() {
		if l.w.run() != nil {
			l.close()
		}
	}()
	go l.read()
	return l
}

// ask sends a request. answer is called for every frame that answers it, until
// the last, or once with an error.
func (l *link) ask(typ frameType, payload []byte, answer answerFunc) (id uint64) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		answer(frame{}, errNotSent)
		return 0
	}
	l.nextID++
	id = l.nextID
	l.pending[id] = answer
	// Queued with the lock held: close must find every request that it knows of
	// either queued or taken.
	l.w.put(frame{typ, id, payload})
	l.mu.Unlock()
	return id
}

// forget drops a request, here and at the peer.
func (l *link) forget(id uint64) {
	l.drop(id)
	l.w.put(frame{typ: frameForget, id: id})
}

func (l *link) drop(id uint64) {
	l.mu.Lock()
	delete(l.pending, id)
	l.mu.Unlock()
}

func (l *link) read() {
	defer l.close()
	r := bufio.NewReaderSize(l.conn, coalesceBytes)
	for {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		l.heard.Store(time.Now().UnixNano())
		l.mu.Lock()
		answer := l.pending[f.id]
		l.mu.Unlock()
		if answer != nil && answer(f, nil) {
			l.drop(f.id)
		}
	}
}

// close ends the link and tells every open request how far it got.
func (l *link) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	unwritten := l.w.close()
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	l.conn.Close()
	close(l.done)
	for _, f := range unwritten {
		if answer := pending[f.id]; answer != nil {
			delete(pending, f.id)
			answer(frame{}, errNotSent)
		}
	}
	for _, answer := range pending {
		answer(frame{}, errBroken)
	}
}

func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}
