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
