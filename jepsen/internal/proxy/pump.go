package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

// chunkBytes is the most that is read at once.
const chunkBytes = 32 << 10

// chunksInFlight bounds what a slow link holds.
const chunksInFlight = 128

// pair is the two halves of one proxied connection.
type pair struct {
	mesh  *Mesh
	a, up *net.TCPConn
	gone  chan struct{} // closed when the pair is torn down
	once  sync.Once
	asked atomic.Bool // bytes went up since the last came back
}

func newPair(m *Mesh, a, up *net.TCPConn) *pair {
	return &pair{mesh: m, a: a, up: up, gone: make(chan struct{})}
}

// reset ends both halves, as a link that lost too much does.
func (p *pair) reset() {
	p.once.Do(func() {
		close(p.gone)
		for _, c := range []*net.TCPConn{p.a, p.up} {
			_ = c.SetLinger(0) // what is closed already needs no reset
			c.Close()
		}
	})
}

// chunk is what was read, and when it may go on. A nil one is the end.
type chunk struct {
	data []byte
	due  time.Time
}

// pump carries one direction. It reads ahead of what it may write, so that
// latency costs time and no throughput.
func (p *pair) pump(from, to *net.TCPConn, l Link, d dice.Dice, answers bool) {
	queue := make(chan chunk, chunksInFlight)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		p.read(from, queue, l, d, answers)
	})
	p.write(to, queue, l)
	reading.Wait()
}

// read takes chunks in and decides over each.
func (p *pair) read(from *net.TCPConn, queue chan<- chunk, l Link, d dice.Dice, answers bool) {
	buf := make([]byte, chunkBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c, _, closed := p.mesh.look(l)
			if closed {
				p.reset()
				return
			}
			if answers && p.asked.Swap(false) && c.DropAnswers > 0 && d.Chance(c.DropAnswers) {
				p.reset()
				return
			}
			if !answers {
				p.asked.Store(true)
			}
			if c.ResetChance > 0 && d.Chance(c.ResetChance) {
				p.reset()
				return
			}
			select {
			case queue <- chunk{append([]byte(nil), buf[:n]...), time.Now().Add(delay(c, d))}:
			case <-p.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func delay(c Condition, d dice.Dice) time.Duration {
	wait := c.Latency
	if c.Jitter > 0 {
		wait += d.Between(0, c.Jitter)
	}
	if c.StallChance > 0 && d.Chance(c.StallChance) {
		wait += c.Stall
	}
	return wait
}

// write lets chunks out when they are due and the link is not cut. An end of
// the stream passes the same way, so that a cut hides it too.
func (p *pair) write(to *net.TCPConn, queue <-chan chunk, l Link) {
	for {
		c, more := <-queue
		if wait := time.Until(c.due); more && wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-p.gone:
				t.Stop()
			}
		}
		if !p.mesh.passable(p.gone, l) {
			p.reset()
			return
		}
		if !more {
			_ = to.CloseWrite() // the other side may be gone already
			return
		}
		if _, err := to.Write(c.data); err != nil {
			p.reset()
			return
		}
	}
}
