package cluster

import (
	"net"
	"sync"
	"time"
)

const (
	writeTimeout   = 10 * time.Second
	coalesceBytes  = 64 << 10 // frames up to this many bytes leave in one write
	writerLowWater = 1 << 20  // buffers larger than this are not kept
)

// frameWriter writes frames to a connection in order, several in one write where
// several wait. It knows of each whether any byte of it may have left.
type frameWriter struct {
	conn net.Conn

	mu     sync.Mutex
	queue  []frame
	busy   bool // writing
	closed bool
	kick   chan struct{}
}

func newFrameWriter(conn net.Conn) *frameWriter {
	return &frameWriter{conn: conn, kick: make(chan struct{}, 1)}
}

// put queues a frame. It reports false, and does not queue, once closed.
func (w *frameWriter) put(f frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, f)
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return true
}

// close ends the writer and returns the frames of which no byte was written.
func (w *frameWriter) close() (unwritten []frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	unwritten, w.queue = w.queue, nil
	if !w.closed {
		w.closed = true
		close(w.kick)
	}
	return unwritten
}

// take removes the frames of the next write from the queue.
func (w *frameWriter) take() (fs []frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, n := 0, 0
	for n < len(w.queue) && (n == 0 || size+len(w.queue[n].payload) <= coalesceBytes) {
		size += frameHeadBytes + len(w.queue[n].payload)
		n++
	}
	fs = append(fs, w.queue[:n]...)
	clear(w.queue[:n])
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	w.busy = n > 0
	return fs
}

// idle reports whether everything has been written.
func (w *frameWriter) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed || (len(w.queue) == 0 && !w.busy)
}

// run writes until the writer is closed or a write fails.
func (w *frameWriter) run() error {
	var buf []byte
	for range w.kick {
		for fs := w.take(); len(fs) > 0; fs = w.take() {
			buf = buf[:0]
			for i := range fs {
				buf = append(fs[i].appendHead(buf), fs[i].payload...)
			}
			if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return err
			}
			if _, err := w.conn.Write(buf); err != nil {
				return err
			}
			if cap(buf) > writerLowWater {
				buf = nil
			}
		}
	}
	return nil
}
