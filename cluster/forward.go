package cluster

import (
	"slices"
	"sync"

	"github.com/spoolraft/spoolraft/fsm"
)

const maxForwards = 4 // frames without an answer, of one follower

// forwarder sends the commands that reach a follower to the leader, many in a
// frame. A frame is sent once: where an answer may be missing because of the
// connection, the outcome of its commands is unknown.
type forwarder struct {
	leader  func() *link // nil: none is known, or reached
	sent    func(commands int)
	mu      sync.Mutex
	queue   []*item
	bytes   int // queued
	out     int // frames without an answer
	pumping bool
}

func (f *forwarder) submit(items ...*item) {
	var refused []*item
	f.mu.Lock()
	f.queue = slices.Grow(f.queue, len(items))
	for _, i := range items {
		if len(f.queue) >= maxQueueCommands || (f.bytes+i.bytes() > maxQueueBytes && len(f.queue) > 0) {
			refused = append(refused, i)
			continue
		}
		f.queue = append(f.queue, i)
		f.bytes += i.bytes()
	}
	f.mu.Unlock()
	refuse(refused, errBusy)
	f.pump()
}

// pump sends frames while there is something to send. One goroutine pumps at a
// time; whoever finds it busy leaves the work to it.
func (f *forwarder) pump() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pumping {
		return
	}
	f.pumping = true
	for f.out < maxForwards && len(f.queue) > 0 {
		l := f.leader()
		var items []*item
		if l == nil {
			items, f.queue, f.bytes = f.queue, nil, 0
		} else {
			items = f.take()
		}
		if l != nil && len(items) > 0 {
			f.out++
		}
		f.mu.Unlock()
		if l == nil {
			refuse(items, errNotLeader)
		} else if len(items) > 0 {
			f.send(l, items)
		}
		f.mu.Lock()
	}
	f.pumping = false
}

// take claims the commands of the next frame.
func (f *forwarder) take() (items []*item) {
	size, n := 0, 0
	for ; n < len(f.queue) && len(items) < maxBatchCommands; n++ {
		i := f.queue[n]
		if len(items) > 0 && size+i.bytes() > maxBatchBytes {
			break
		}
		f.bytes -= i.bytes()
		if i.take() {
			size += i.bytes()
			items = append(items, i)
		}
	}
	clear(f.queue[:n])
	if f.queue = f.queue[n:]; len(f.queue) == 0 {
		f.queue = nil
	}
	return items
}

func (f *forwarder) send(l *link, items []*item) {
	f.sent(len(items))
	left := len(items)
	l.ask(framePropose, appendProposal(nil, items), func(fr frame, err error) (last bool) {
		if err == nil {
			left, err = f.answered(fr, items, left)
		}
		if err == nil && left > 0 {
			return false
		}
		f.abort(items, err)
		f.mu.Lock()
		f.out--
		f.mu.Unlock()
		f.pump()
		return true
	})
}

// answered settles what a frame answers and returns how much is left.
func (f *forwarder) answered(fr frame, items []*item, left int) (int, error) {
	if fr.typ != frameResults {
		return left, errBadFrame
	}
	first, outs, err := decodeResults(fr.payload)
	if err != nil || first+len(outs) > len(items) {
		return left, errBadFrame
	}
	for n, o := range outs {
		i := items[first+n]
		if i == nil {
			return left, errBadFrame
		}
		items[first+n] = nil
		left--
		i.settle(o.Result, o.Err)
	}
	return left, nil
}

// abort settles what got no answer.
func (f *forwarder) abort(items []*item, err error) {
	as := unknown("the connection to the leader broke")
	if err == errNotSent {
		as = errNotLeader
	}
	for _, i := range items {
		if i != nil {
			i.settle(fsm.Result{}, as)
		}
	}
}
