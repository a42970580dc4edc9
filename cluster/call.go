package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/spoolraft/spoolraft/fsm"
)

// call is the sink of commands that one goroutine waits for together.
type call struct {
	items []item
	outs  []fsm.Outcome // by slot
	late  func(fsm.Result)

	mu        sync.Mutex
	left      int           // offered and not settled
	done      chan struct{} // closed when none is left
	abandoned bool          // late takes what comes now

	single [1]item
	out    [1]fsm.Outcome
	open   [1]*item
}

// errOpen stands for the outcome of a command that has none yet.
var errOpen = errors.New("no outcome yet")

// newCall returns a call of n commands, yet to be set. late takes a result that
// comes after the caller has given up.
func newCall(n int, late func(fsm.Result)) *call {
	c := &call{late: late}
	c.items, c.outs = c.single[:], c.out[:]
	if n != 1 {
		c.items, c.outs = make([]item, n), make([]fsm.Outcome, n)
	}
	return c
}

// begin returns the items to offer, which are all that are well formed.
func (c *call) begin(id callID) []*item {
	open := c.open[:0]
	if len(c.items) > 1 {
		open = make([]*item, 0, len(c.items))
	}
	for slot := range c.items {
		i := &c.items[slot]
		i.to, i.slot, i.call = c, slot, id
		if wellFormed(i.cmd) {
			open = append(open, i)
		} else {
			c.outs[slot].Result = fsm.Result{Code: fsm.CodeInvalidCommand}
		}
	}
	return open
}

// expect prepares for the outcomes of items, which are about to be offered.
func (c *call) expect(items []*item) {
	c.left, c.done = len(items), make(chan struct{})
	for _, i := range items {
		i.state.Store(itemQueued)
		c.outs[i.slot] = fsm.Outcome{Err: errOpen}
	}
}

func (c *call) settle(slot int, r fsm.Result, err error) {
	c.mu.Lock()
	if c.abandoned {
		c.mu.Unlock()
		if c.late != nil && err == nil {
			c.late(r)
		}
		return
	}
	c.outs[slot] = fsm.Outcome{Result: r, Err: err}
	c.left--
	done := c.left == 0
	c.mu.Unlock()
	if done {
		close(c.done)
	}
}

// wait returns when every item has its outcome. Where ctx ends before, what was
// not taken yet is withdrawn, and of the rest the outcome is unknown.
func (c *call) wait(ctx context.Context) {
	select {
	case <-c.done:
		return
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = true
	for slot := range c.items {
		switch {
		case c.outs[slot].Err != errOpen:
		case c.items[slot].withdraw():
			c.outs[slot].Err = cancelled(ctx)
		default:
			c.outs[slot].Err = unknownSince(ctx)
		}
	}
}

// again returns, in the room of items, those that entered no log because nobody
// led.
func (c *call) again(items []*item) []*item {
	open := items[:0]
	for slot := range c.items {
		if c.outs[slot].Err == errNotLeader {
			open = append(open, &c.items[slot])
		}
	}
	return open
}

// end gives items their outcome.
func (c *call) end(items []*item, err error) {
	for _, i := range items {
		c.outs[i.slot] = fsm.Outcome{Err: err}
	}
}
