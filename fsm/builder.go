package fsm

import (
	"errors"
	"fmt"

	"github.com/tidwall/btree"
)

// Builder makes a machine out of records: a header, then spools, then queues,
// each followed by its messages and then its claims, then channels, each
// followed by its claims, then connectors.
type Builder struct {
	m         *Machine
	hash      uint64
	lastSpool string
	queue     *queue // the last added, as long as it is not complete
	channel   *channel
}

var errNoQueue = errors.New("a record that belongs to a queue comes before any queue")

// NewBuilder starts with the header.
func NewBuilder(h HeaderRecord) *Builder {
	m := New()
	m.spools = new(btree.Map[string, *spool])
	m.index, m.nowMs, m.nextQueue, m.secret, m.clusterID = h.Index, h.NowMs, h.NextQueue, h.Secret, h.ClusterID
	m.revision = h.Revision
	return &Builder{m: m, hash: h.Hash}
}

// AddSpool adds a spool. Names must ascend.
func (b *Builder) AddSpool(r SpoolRecord) error {
	if !ValidName(r.Name) || r.Name <= b.lastSpool {
		return fmt.Errorf("spool %q is out of place", r.Name)
	}
	b.lastSpool = r.Name
	b.m.spools.Set(r.Name, &spool{
		epoch: b.m.epoch, name: r.Name, caps: r.Caps, suspended: r.Suspended, queues: new(btree.Map[string, uint64]),
	})
	return nil
}

// AddQueue adds a queue. Numbers must ascend and the spool must be there.
func (b *Builder) AddQueue(r QueueRecord) error {
	b.endQueue()
	sp, ok := b.m.spools.Get(r.Spool)
	if !ok {
		return fmt.Errorf("queue %d is of spool %q, which is not there", r.Number, r.Spool)
	}
	last, _, _ := b.m.queues.Max()
	_, named := sp.queues.Get(r.Name)
	switch {
	case r.Number <= last, r.Number >= b.m.nextQueue, named, !ValidName(r.Name):
		return fmt.Errorf("queue %d (%q) is out of place", r.Number, r.Name)
	case r.State != QueueActive && r.State != QueueDraining, !FullPatch(r.Settings).Valid(), r.NextMessage == 0,
		r.CreatedAtMs < 0, r.CreatedAtMs > b.m.nowMs:
		return fmt.Errorf("queue %d has an impossible state or setting", r.Number)
	}
	q := b.m.newQueue(r.Number, r.Spool, r.Name, r.CreatedAtMs)
	q.state, q.settings, q.nextMessage, q.rateMicros, q.totals = r.State, r.Settings, r.NextMessage, r.RateMicros, r.Totals
	q.retentionMs = retentionMs(sp, &q.settings)
	b.m.queues.Set(q.number, q)
	sp.queues.Set(q.name, q.number)
	b.queue = q
	return nil
}

// AddMessage adds a message to the last queue. Numbers must ascend.
func (b *Builder) AddMessage(r MessageRecord) error {
	q := b.queue
	if q == nil {
		return errNoQueue
	}
	last, newest, some := q.messages.Max()
	switch {
	case r.Number <= last, r.Number >= q.nextMessage, some && r.CreatedAtMs < newest.createdAtMs, r.CreatedAtMs < q.createdAtMs,
		r.CreatedAtMs > b.m.nowMs:
		return fmt.Errorf("message %d of queue %d is out of place", r.Number, q.number)
	case r.State != StateVisible && r.State != StatePending && r.State != StateFailed, r.DueMs < 0,
		r.Retries > MaxMaxRetries, r.LeaseMaxRetries > MaxMaxRetries, len(r.Payload) > MaxPayloadBytes:
		return fmt.Errorf("message %d of queue %d has an impossible state", r.Number, q.number)
	}
	q.insert(r.Number, message{
		payload: r.Payload, sum: checksum(r.Payload), createdAtMs: r.CreatedAtMs, dueMs: r.DueMs, moves: r.Moves,
		retries: uint16(r.Retries), leaseMaxRetries: uint16(r.LeaseMaxRetries), state: r.State,
	})
	return nil
}

// AddClaim adds a remembered key to the last queue, in the order of claims.
func (b *Builder) AddClaim(r ClaimRecord) error {
	q := b.queue
	if q == nil {
		return errNoQueue
	}
	_, twice := q.claims.get(r.Key)
	if twice || q.settings.DedupWindowSeconds == 0 || r.Message == 0 || r.Message >= q.nextMessage ||
		r.ClaimedAtMs < q.claims.newestMs || r.ClaimedAtMs > b.m.nowMs {
		return fmt.Errorf("a remembered key of queue %d is out of place", q.number)
	}
	q.claims.add(claim{key: r.Key, message: r.Message, atMs: r.ClaimedAtMs})
	return nil
}

// Finish returns the machine, or an error where the records contradict each
// other or do not have the header's hash.
func (b *Builder) Finish() (*Machine, error) {
	b.endQueue()
	b.endChannel()
	if _, ok := b.m.spools.Get(DefaultSpool); !ok {
		return nil, fmt.Errorf("spool %q is missing", DefaultSpool)
	}
	if got := b.m.Hash(); got != b.hash {
		return nil, fmt.Errorf("the state's hash is %016x, but %016x was saved with it", got, b.hash)
	}
	return b.m, nil
}

func (b *Builder) endQueue() {
	if q := b.queue; q != nil {
		sp, _ := b.m.spools.Get(q.spool)
		b.m.count(sp, q, q.counts())
		b.queue = nil
	}
}
