package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/spoolraft/spoolraft/fsm"
)

// item is one command on its way to a log.
type item struct {
	cmd   *fsm.Command
	to    sink
	slot  int // of to
	keys  *keySet
	state atomic.Int32
}

const (
	itemQueued int32 = iota
	itemTaken        // it may be in a log from now on
	itemWithdrawn
)

// take claims the item for a proposal or a frame. It reports false where the
// caller has withdrawn it.
func (i *item) take() bool { return i.state.CompareAndSwap(itemQueued, itemTaken) }

// withdraw reports whether the item will now never be taken.
func (i *item) withdraw() bool { return i.state.CompareAndSwap(itemQueued, itemWithdrawn) }

func (i *item) settle(r fsm.Result, err error) { i.to.settle(i.slot, r, err) }

// bytes is about what the item takes in a log or a frame.
func (i *item) bytes() int { return itemOverheadBytes + len(i.cmd.Payload) }

const itemOverheadBytes = 64

// sink takes the outcome of commands, each once.
type sink interface {
	settle(slot int, r fsm.Result, err error)
}

// call is the sink of one command that a goroutine waits for.
type call struct {
	item item
	done chan struct{}

	mu      sync.Mutex
	settled bool
	late    func(fsm.Result) // takes a result that comes when nobody waits
	result  fsm.Result
	err     error
}

func newCall(cmd *fsm.Command) *call {
	c := &call{done: make(chan struct{})}
	c.item.cmd, c.item.to = cmd, c
	return c
}

func (c *call) settle(_ int, r fsm.Result, err error) {
	c.mu.Lock()
	c.settled, c.result, c.err = true, r, err
	late := c.late
	c.mu.Unlock()
	close(c.done)
	if late != nil && err == nil {
		late(r)
	}
}

// abandon leaves the call to late. It reports false where it has just settled.
func (c *call) abandon(late func(fsm.Result)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled {
		c.late = late
	}
	return !c.settled
}

// flightKey names a dedup key for as long as it is in flight.
type flightKey struct {
	spool, queue string
	key          fsm.Fingerprint
}

func keyOf(c *fsm.Command) (flightKey, bool) {
	if !c.Keyed || (c.Op != fsm.OpSend && c.Op != fsm.OpAckAndSend) {
		return flightKey{}, false
	}
	return flightKey{c.Spool, c.Queue, c.Key}, true
}

// keySet holds the keys that one leadership has in flight. It is a quick answer
// to a retry that came too early; the machine decides in any case.
type keySet struct {
	mu   sync.Mutex
	keys map[flightKey]struct{}
}

func newKeySet() *keySet { return &keySet{keys: make(map[flightKey]struct{})} }

// enter reports false where the item's key is in flight already.
func (s *keySet) enter(i *item) bool {
	k, keyed := keyOf(i.cmd)
	if !keyed {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.keys[k]; taken {
		return false
	}
	s.keys[k] = struct{}{}
	i.keys = s
	return true
}

// leave ends the flight of an item's key, whatever became of the item.
func (i *item) leave() {
	if i.keys == nil {
		return
	}
	k, _ := keyOf(i.cmd)
	i.keys.mu.Lock()
	delete(i.keys.keys, k)
	i.keys.mu.Unlock()
	i.keys = nil
}
