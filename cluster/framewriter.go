package cluster

import (
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	writeTimeout   = 10 * time.Second
	coalesceBytes  = 64 << 10 // frames up to this many bytes leave in one write
	writerLowWater = 1 << 20  // buffers larger than this are not kept
)

// frameWriter writes frames to a connection in order, several in one write where
// several wait. It knows of each whether any byte of it may have left.
//
// Whoever brings a frame writes it, as far as the connection takes it without
// waiting, since waking a goroutine for it costs more than the write; the rest is
// for the goroutine of run.
type frameWriter struct {
	conn net.Conn
	raw  syscall.RawConn // nil: the connection cannot be asked not to wait

	mu     sync.Mutex
	queue  []frame
	by     writing
	closed bool
	kick   chan struct{} // there is something for run

	// Of whoever writes.
	buf []byte
	out []byte // what is left of buf
}

// writing says who writes at the moment.
type writing int

const (
	writtenByNobody writing = iota
	writtenByPut
	writtenByRun
)

func newFrameWriter(conn net.Conn) *frameWriter {
	w := &frameWriter{conn: conn, kick: make(chan struct{}, 1)}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			w.raw = raw
		}
	}
	return w
}

// put queues a frame and does not wait. It reports false, and does not queue,
// once closed.
func (w *frameWriter) put(f frame) bool {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.queue = append(w.queue, f)
	direct := false
	if w.by == writtenByNobody {
		if direct = w.raw != nil; direct {
			w.take(writtenByPut)
		} else {
			w.wake()
		}
	}
	w.mu.Unlock()
	if direct {
		w.writeNow()
	}
	return true
}

// wake has run look. The lock is held, so that kick is not closed.
func (w *frameWriter) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// take makes ready what is to be written next, if anything is. The lock is held.
func (w *frameWriter) take(by writing) bool {
	size, n := 0, 0
	for n < len(w.queue) && (n == 0 || size+len(w.queue[n].payload) <= coalesceBytes) {
		size += frameHeadBytes + len(w.queue[n].payload)
		n++
	}
	if n == 0 {
		w.by = writtenByNobody
		return false
	}
	w.by = by
	if cap(w.buf) > writerLowWater {
		w.buf = nil
	}
	w.buf = w.buf[:0]
	for _, f := range w.queue[:n] {
		w.buf = append(f.appendHead(w.buf), f.payload...)
	}
	w.out = w.buf
	clear(w.queue[:n])
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return true
}

// writeNow writes what the connection takes at once, and leaves the rest, or an
// error, to run.
func (w *frameWriter) writeNow() {
	n := 0
	err := w.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), w.out)
		return true
	})
	if err == nil && n > 0 {
		w.out = w.out[n:]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by = writtenByNobody
	if len(w.out) > 0 {
		w.by = writtenByRun
	}
	if !w.closed && (len(w.out) > 0 || len(w.queue) > 0) {
		w.wake()
	}
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

// idle reports whether everything has been written.
func (w *frameWriter) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed || (len(w.queue) == 0 && w.by == writtenByNobody)
}

// run writes what could not be written at once, until the writer is closed or a
// write fails.
func (w *frameWriter) run() error {
	for range w.kick {
		for w.more() {
			if err := w.write(); err != nil {
				return err
			}
		}
	}
	return nil
}

// more reports whether there is something for run to write.
func (w *frameWriter) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.by == writtenByPut: // wakes run where it leaves something
		return false
	case len(w.out) > 0:
		return true
	}
	return w.take(writtenByRun)
}

// write writes all of out and waits for as long as it takes, within bounds.
func (w *frameWriter) write() error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return err
	}
	w.out = nil
	if w.raw == nil {
		return nil
	}
	return w.conn.SetWriteDeadline(time.Time{}) // it would hold for writes that do not wait, too
}
