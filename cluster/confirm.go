package cluster

import (
	"encoding/binary"
	"sync"
	"time"
)

// confirmer verifies that this node still leads: it asks the voters for their
// term. A voter whose term is still the leader's has voted for no later leader,
// so if a majority answers so after a read arrived, no later leader had
// committed anything before it arrived, and this node's state is current.
//
// One round serves everybody who came before it began.
type confirmer struct {
	office  func() *leadership
	voters  func() []raftID // without this node
	peer    func(raftID) *link
	timeout time.Duration

	mu      sync.Mutex
	waiting []func(bool)
	running bool
}

// confirm calls then, perhaps at once, and never blocks.
func (c *confirmer) confirm(then func(leads bool)) {
	c.mu.Lock()
	c.waiting = append(c.waiting, then)
	start := !c.running
	c.running = true
	c.mu.Unlock()
	if start {
		c.round()
	}
}

// round is one question to the voters.
type round struct {
	c       *confirmer
	office  *leadership
	waiting []func(bool)

	mu    sync.Mutex
	timer *time.Timer
	need  int // more voters that have to agree
	open  int // voters that have not answered
	over  bool
}

func (c *confirmer) round() {
	c.mu.Lock()
	r := &round{c: c, office: c.office(), waiting: c.waiting}
	c.waiting = nil
	c.mu.Unlock()
	if r.office == nil {
		r.finish(false)
		return
	}
	voters := c.voters()
	r.need, r.open = (len(voters)+1)/2, len(voters)
	if r.need == 0 {
		r.finish(true)
		return
	}
	r.mu.Lock()
	r.timer = time.AfterFunc(c.timeout, func() { r.finish(false) })
	r.mu.Unlock()
	question := binary.BigEndian.AppendUint64(nil, r.office.term)
	for _, v := range voters {
		if l := c.peer(v); l != nil {
			l.ask(frameConfirm, question, r.answer)
		} else {
			r.vote(false)
		}
	}
}

func (r *round) answer(f frame, err error) (last bool) {
	term, bad := decodeUint64(f.payload)
	r.vote(err == nil && bad == nil && f.typ == frameTerm && term == r.office.term)
	return true
}

func (r *round) vote(yes bool) {
	r.mu.Lock()
	r.open--
	if yes {
		r.need--
	}
	won, lost := r.need <= 0, r.need > r.open
	r.mu.Unlock()
	if won || lost {
		r.finish(won)
	}
}

// finish answers everybody of the round and starts the next one.
func (r *round) finish(leads bool) {
	r.mu.Lock()
	over := r.over
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	if over {
		return
	}
	leads = leads && r.c.office() == r.office
	for _, then := range r.waiting {
		then(leads)
	}
	r.c.mu.Lock()
	more := len(r.c.waiting) > 0
	r.c.running = more
	r.c.mu.Unlock()
	if more {
		go r.c.round()
	}
}
