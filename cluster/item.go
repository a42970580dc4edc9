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
	call  callID
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

// callID names a call of several commands, so that they are not in each other's
// way. Zero is a command by itself.
type callID struct {
	from   *server // nil: this node's own
	number uint64
}

// sink takes the outcome of commands, each once.
type sink interface {
	settle(slot int, r fsm.Result, err error)
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
	keys map[flightKey]flight
}

// flight is one call's use of a key.
type flight struct {
	call  callID
	items int
}

func newKeySet() *keySet { return &keySet{keys: make(map[flightKey]flight)} }

// enter reports false where another call has the item's key in flight already.
func (s *keySet) enter(i *item) bool {
	k, keyed := keyOf(i.cmd)
	if !keyed {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, taken := s.keys[k]
	if taken && (i.call == callID{} || i.call != f.call) {
		return false
	}
	s.keys[k] = flight{i.call, f.items + 1}
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
	if f := i.keys.keys[k]; f.items > 1 {
		i.keys.keys[k] = flight{f.call, f.items - 1}
	} else {
		delete(i.keys.keys, k)
	}
	i.keys.mu.Unlock()
	i.keys = nil
}
