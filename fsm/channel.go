package fsm

// channel is a channel's document with the claims that are made in its name. A
// machine changes only channels of its own epoch, as with queues.
type channel struct {
	epoch    uint64
	document document
	claims   channelClaims
	counted  channelCounts
}

// channelCounts is what a channel has entered into sums outside of it.
type channelCounts struct {
	digest uint64
	endMs  int64 // of the claim that ends first
}

// dueChannel is a channel of which a claim ends at a time.
type dueChannel struct {
	atMs int64
	name string
}

func lessDueChannel(a, b dueChannel) bool {
	if a.atMs != b.atMs {
		return a.atMs < b.atMs
	}
	return a.name < b.name
}

// newChannel returns a channel of the machine's, without claims.
func (m *Machine) newChannel(name string) *channel {
	ch := &channel{epoch: m.epoch, claims: newChannelClaims(), counted: channelCounts{endMs: never}}
	m.channels.Set(name, ch)
	return ch
}

func (ch *channel) digest() uint64 {
	t := &ch.claims.totals
	return uint64(ch.document.identity.word(t.Claimed).word(t.Settled).word(t.Released).word(t.Lapsed).word(ch.claims.content))
}

// findChannel returns the channel of that name, ready to be changed.
func (m *Machine) findChannel(name string) (*channel, bool) {
	ch, ok := m.channels.Get(name)
	if !ok {
		return nil, false
	}
	return m.ownChannel(ch), true
}

func (m *Machine) ownChannel(ch *channel) *channel {
	if ch.epoch != m.epoch {
		c := *ch
		c.epoch, c.claims = m.epoch, ch.claims.copy()
		ch = &c
		m.channels.Set(ch.document.name, ch)
	}
	return ch
}

// doneChannel enters what a channel now amounts to into the sums of the
// machine. Every change of a channel ends here.
func (m *Machine) doneChannel(ch *channel) {
	m.countChannel(ch, channelCounts{digest: ch.digest(), endMs: ch.claims.firstEndMs()})
}

// dropChannel removes a channel with its claims, in constant time as a queue.
func (m *Machine) dropChannel(name string) {
	ch, _ := m.findChannel(name)
	m.countChannel(ch, channelCounts{endMs: never})
	m.channels.Delete(name)
}

func (m *Machine) countChannel(ch *channel, now channelCounts) {
	was := ch.counted
	m.content += now.digest - was.digest
	if now.endMs != was.endMs {
		m.channelsDue.Delete(dueChannel{was.endMs, ch.document.name})
		if now.endMs != never {
			m.channelsDue.Set(dueChannel{now.endMs, ch.document.name})
		}
	}
	ch.counted = now
}

// claim gives a key to its owner, unless it is another's or settled.
func (m *Machine) claim(c *Command) Result {
	ch, ok := m.findChannel(c.Name)
	if !ok {
		return Result{Code: CodeDocumentNotFound}
	}
	r := ch.claims.admit(c, m.nowMs)
	if r.Code == CodeOK {
		r.LeaseExpiresAtMs = m.nowMs + int64(c.LapseMs)
		ch.claims.take(channelClaim{
			key: c.Key, owner: c.Owner, claimedAtMs: m.nowMs, lapsesAtMs: r.LeaseExpiresAtMs, windowEndsMs: windowEndMs(c, m.nowMs),
		})
	}
	m.doneChannel(ch)
	return r
}

// settleClaim turns the owner's claim into a remembered key, whose window
// starts anew. Repeated, it changes nothing.
func (m *Machine) settleClaim(c *Command) Result {
	ch, ok := m.findChannel(c.Name)
	if !ok {
		return Result{Code: CodeDocumentNotFound}
	}
	x, held := ch.claims.heldBy(c, m.nowMs)
	if held && !x.settled {
		ch.claims.settle(x, windowEndMs(c, m.nowMs))
	}
	m.doneChannel(ch)
	if !held {
		return Result{Code: CodeClaimLost}
	}
	return Result{}
}

// releaseClaim frees the key of the owner's claim. What is settled stays so.
func (m *Machine) releaseClaim(c *Command) Result {
	ch, ok := m.findChannel(c.Name)
	if !ok {
		return Result{Code: CodeDocumentNotFound}
	}
	x, held := ch.claims.heldBy(c, m.nowMs)
	held = held && !x.settled
	if held {
		ch.claims.remove(x)
		ch.claims.totals.Released++
	}
	m.doneChannel(ch)
	if !held {
		return Result{Code: CodeClaimLost}
	}
	return Result{}
}

// claimAndSend claims a key, appends a message and settles the claim, or does
// nothing of it. The key comes first, so that a repeat learns that it is one
// whatever has become of the queue.
func (m *Machine) claimAndSend(sp *spool, c *Command) Result {
	ch, ok := m.findChannel(c.Name)
	if !ok {
		return Result{Code: CodeDocumentNotFound}
	}
	r := ch.claims.admit(c, m.nowMs)
	if r.Code == CodeOK {
		var q *queue
		if q, r = m.accept(sp, c, freed{}); r.Code == CodeOK {
			r = m.enqueue(q, c)
			m.done(sp, q)
			x := channelClaim{key: c.Key, owner: c.Owner, claimedAtMs: m.nowMs}
			ch.claims.take(x)
			ch.claims.settle(x, windowEndMs(c, m.nowMs))
		}
	}
	m.doneChannel(ch)
	return r
}

func windowEndMs(c *Command, nowMs int64) int64 { return nowMs + int64(c.WindowSeconds)*1000 }
