package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
)

// socketPair is two ends of a connection: of TCP, over which frames are written at
// once, or of a pipe, over which they are not.
func socketPair(t *testing.T, tcp bool) (a, b net.Conn) {
	t.Helper()
	if !tcp {
		a, b = net.Pipe()
		return a, b
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// TestFrameWriterKeepsOrder has many bring frames, more than a connection takes
// at once while nobody reads. None waits, and none is lost, doubled or out of
// its order.
func TestFrameWriterKeepsOrder(t *testing.T) {
	const callers, frames, size = 4, 200, 32 << 10
	for name, tcp := range map[string]bool{"tcp": true, "pipe": false} {
		t.Run(name, func(t *testing.T) {
			from, to := socketPair(t, tcp)
			defer to.Close()
			w := newFrameWriter(from)
			ended := make(chan error, 1)
			go func() { ended <- w.run() }()
			var putting sync.WaitGroup
			for caller := range callers {
				putting.Go(func() {
					for n := range frames {
						payload := bytes.Repeat([]byte{byte(caller)}, size)
						binary.BigEndian.PutUint32(payload, uint32(n))
						if !w.put(frame{framePropose, uint64(caller), payload}) {
							t.Error("refused")
						}
					}
				})
			}
			putting.Wait() // nothing has been read yet
			r, next := bufio.NewReader(to), [callers]uint32{}
			for range callers * frames {
				f, err := readFrame(r)
				if err != nil {
					t.Fatal(err)
				}
				if n := binary.BigEndian.Uint32(f.payload); n != next[f.id] || f.payload[size-1] != byte(f.id) {
					t.Fatalf("frame %d of caller %d came when %d was due", n, f.id, next[f.id])
				}
				next[f.id]++
			}
			eventually(t, "the writer is idle", w.idle)
			w.close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFrameWriterTellsWhatItHasNotWritten: no byte of those frames has left.
func TestFrameWriterTellsWhatItHasNotWritten(t *testing.T) {
	from, to := socketPair(t, true)
	defer from.Close()
	w := newFrameWriter(from)
	written := 0
	for eventuallyFull := false; !eventuallyFull; written++ {
		w.put(frame{framePropose, 1, make([]byte, coalesceBytes)})
		w.mu.Lock()
		eventuallyFull = len(w.queue) > 0
		w.mu.Unlock()
	}
	if left := w.close(); len(left) != 1 {
		t.Errorf("%d frames are said to be unwritten", len(left))
	}
	if w.put(frame{framePropose, 2, nil}) {
		t.Error("taken after the end")
	}
	from.Close()
	r := bufio.NewReader(to)
	got := 0
	for ; ; got++ {
		if _, err := readFrame(r); err != nil {
			break
		}
	}
	if got >= written {
		t.Errorf("%d frames arrived of %d, one of which was said to be unwritten", got, written)
	}
}

// TestFrameWriterEndsOverABrokenConnection, though it is noticed by somebody who
// brings a frame.
func TestFrameWriterEndsOverABrokenConnection(t *testing.T) {
	from, to := socketPair(t, true)
	to.Close()
	from.Close()
	w := newFrameWriter(from)
	w.put(frame{framePropose, 1, nil})
	if err := w.run(); err == nil {
		t.Error("a broken connection was not noticed")
	}
}
