package fsm

import (
	"iter"
	"math"
)

// Image is a machine as it was between two batches. Taking one costs the same
// at any size; it can be read by one goroutine while the machine goes on.
type Image struct {
	m     *Machine
	dueMs int64 // read as of then; 0: as it is
}

// imageEpoch is that of no machine, so that an image forks what it changes.
const imageEpoch = math.MaxUint64

// Image returns the machine as it is, to be saved. Needs the same exclusion as
// Apply. What is overdue stays so; to read, take [Machine.ImageAt].
func (m *Machine) Image() *Image {
	m.epoch++ // whatever the image holds is forked before it changes
	c := *m
	c.epoch = imageEpoch
	c.spools, c.queues, c.due = m.spools.Copy(), m.queues.Copy(), m.due.Copy()
	c.channels, c.connectors, c.channelsDue = m.channels.Copy(), m.connectors.Copy(), m.channelsDue.Copy()
	return &Image{m: &c}
}

// ImageAt returns the machine as it would be after an empty batch at nowMs,
// with every expiry due by then done. Needs the same exclusion as Apply; the
// expiries cost their time when the image is read.
func (m *Machine) ImageAt(nowMs int64) *Image {
	i := m.Image()
	i.dueMs = max(nowMs, m.nowMs)
	i.m.due.Scan(func(next timed) bool {
		if next.atMs > i.dueMs {
			return false
		}
		// Forking needs the exclusion that a later read does not have.
		q, _ := i.m.queues.Get(next.number)
		sp, _ := i.m.spools.Get(q.spool)
		i.m.own(q)
		i.m.ownSpool(sp)
		return true
	})
	i.m.channelsDue.Scan(func(next dueChannel) bool {
		if next.atMs > i.dueMs {
			return false
		}
		i.m.findChannel(next.name)
		return true
	})
	return i
}

// Read answers q as of the image's time.
func (i *Image) Read(q Query) Answer {
	if i.dueMs != 0 {
		i.m.nowMs = i.dueMs
		i.m.sweep(math.MaxInt)
	}
	return i.m.Read(i.m.nowMs, q)
}

// Header returns the state that belongs to no spool.
func (i *Image) Header() HeaderRecord {
	m := i.m
	return HeaderRecord{
		Index: m.index, NowMs: m.nowMs, NextQueue: m.nextQueue, Secret: m.secret, ClusterID: m.clusterID, Hash: m.Hash(),
		Revision: m.revision,
	}
}

// Spools yields the spools by name.
func (i *Image) Spools() iter.Seq[SpoolRecord] {
	return func(yield func(SpoolRecord) bool) {
		i.m.spools.Scan(func(_ string, sp *spool) bool {
			return yield(SpoolRecord{Name: sp.name, Caps: sp.caps, Suspended: sp.suspended})
		})
	}
}

// Queues yields the queues by number.
func (i *Image) Queues() iter.Seq[SavedQueue] {
	return func(yield func(SavedQueue) bool) {
		i.m.queues.Scan(func(_ uint64, q *queue) bool { return yield(SavedQueue{q}) })
	}
}

// SavedQueue is a queue of an [Image].
type SavedQueue struct{ q *queue }

// Record returns the queue without its messages and keys.
func (s SavedQueue) Record() QueueRecord {
	q := s.q
	return QueueRecord{
		Number: q.number, Spool: q.spool, Name: q.name, CreatedAtMs: q.createdAtMs, State: q.state, Settings: q.settings,
		NextMessage: q.nextMessage, RateMicros: q.rateMicros, Totals: q.totals,
	}
}

// Messages yields the queue's messages in the order of their numbers.
func (s SavedQueue) Messages() iter.Seq[MessageRecord] {
	return func(yield func(MessageRecord) bool) {
		s.q.messages.Scan(func(number uint64, x message) bool {
			return yield(MessageRecord{
				Number: number, State: x.state, CreatedAtMs: x.createdAtMs, DueMs: x.dueMs, Moves: x.moves,
				Retries: uint32(x.retries), LeaseMaxRetries: uint32(x.leaseMaxRetries), Payload: x.payload,
			})
		})
	}
}

// Claims yields the queue's remembered keys in the order of their claims.
func (s SavedQueue) Claims() iter.Seq[ClaimRecord] {
	return func(yield func(ClaimRecord) bool) {
		s.q.claims.all(func(c claim) bool {
			return yield(ClaimRecord{Key: c.key, Message: c.message, ClaimedAtMs: c.atMs})
		})
	}
}

// Channels yields the channels by name.
func (i *Image) Channels() iter.Seq[SavedChannel] {
	return func(yield func(SavedChannel) bool) {
		i.m.channels.Scan(func(_ string, ch *channel) bool { return yield(SavedChannel{ch}) })
	}
}

// Connectors yields the connectors by name.
func (i *Image) Connectors() iter.Seq[DocumentRecord] {
	return func(yield func(DocumentRecord) bool) {
		i.m.connectors.Scan(func(_ string, d document) bool { return yield(d.record()) })
	}
}

func (d document) record() DocumentRecord {
	return DocumentRecord{Name: d.name, Version: d.version, ChangedAtMs: d.changedAtMs, Document: d.text}
}

// SavedChannel is a channel of an [Image].
type SavedChannel struct{ ch *channel }

// Record returns the channel without its claims.
func (s SavedChannel) Record() ChannelRecord {
	return ChannelRecord{DocumentRecord: s.ch.document.record(), Totals: s.ch.claims.totals}
}

// Claims yields the channel's claims by key.
func (s SavedChannel) Claims() iter.Seq[ChannelClaimRecord] {
	return func(yield func(ChannelClaimRecord) bool) {
		s.ch.claims.byKey.Scan(func(x channelClaim) bool {
			return yield(ChannelClaimRecord{
				Key: x.key, Owner: x.owner, ClaimedAtMs: x.claimedAtMs, LapsesAtMs: x.lapsesAtMs, WindowEndsMs: x.windowEndsMs,
				Settled: x.settled,
			})
		})
	}
}
