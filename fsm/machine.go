package fsm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/tidwall/btree"
)

const (
	never = math.MaxInt64

	// sweepBase and sweepPerCommand bound how many expiries one batch takes care
	// of: enough to keep up with what a batch can add, too few to stall it.
	sweepBase       = 1024
	sweepPerCommand = 4
)

// Machine is the replicated state. It is not safe for concurrent use; an
// [Image] of it can be read while the machine goes on.
type Machine struct {
	epoch     uint64
	index     uint64
	nowMs     int64
	clusterID string
	secret    Secret
	nextQueue uint64
	spools    *btree.Map[string, *spool]
	queues    *btree.Map[uint64, *queue]
	due       *btree.BTreeG[timed] // queues by their next expiry
	content   uint64               // sum of the digests of queues, channels and connectors
	sweepBase int

	revision    uint64 // number of changes of documents
	channels    *btree.Map[string, *channel]
	connectors  *btree.Map[string, document]
	channelsDue *btree.BTreeG[dueChannel] // channels by the first end of a claim
}

// spool is a namespace of queues with its caps and the sums that these bound.
type spool struct {
	epoch     uint64
	name      string
	caps      Caps
	suspended bool
	queues    *btree.Map[string, uint64] // number by name

	messages, dataBytes, keys uint64
}

// New returns a machine that has applied nothing.
func New() *Machine {
	m := &Machine{
		epoch:     1,
		nextQueue: 1,
		spools:    new(btree.Map[string, *spool]),
		queues:    new(btree.Map[uint64, *queue]),
		due:       newTree(lessTimed),
		sweepBase: sweepBase,

		channels:    new(btree.Map[string, *channel]),
		connectors:  new(btree.Map[string, document]),
		channelsDue: newTree(lessDueChannel),
	}
	m.spools.Set(DefaultSpool, &spool{epoch: m.epoch, name: DefaultSpool, queues: new(btree.Map[string, uint64])})
	return m
}

// Apply applies the batch of the log entry at index and returns a result for
// each command. It is deterministic: equal machines that apply equal batches
// are equal again and return equal results.
func (m *Machine) Apply(index uint64, b Batch) []Result {
	m.index = index
	m.nowMs = max(m.nowMs, b.NowMs)
	m.sweep(m.sweepBase + sweepPerCommand*len(b.Commands))
	results := make([]Result, len(b.Commands))
	for i := range b.Commands {
		results[i] = m.apply(&b.Commands[i])
	}
	return results
}

func (m *Machine) apply(c *Command) Result {
	if c.Op == OpInit {
		return m.init(c)
	}
	if m.clusterID == "" {
		return Result{Code: CodeNotInitialised}
	}
	if fieldsOf(c.Op)&hasSpool == 0 {
		return m.applyUnspooled(c)
	}
	sp, ok := m.spools.Get(c.Spool)
	switch {
	case !ok:
		return Result{Code: CodeSpoolNotFound}
	case sp.suspended && c.Op != OpSetCaps:
		return Result{Code: CodeSpoolSuspended}
	case !c.valid():
		return Result{Code: CodeInvalidCommand}
	}
	sp = m.ownSpool(sp)
	switch c.Op {
	case OpSetCaps:
		return m.setCaps(sp, c)
	case OpCreateQueue:
		return m.createQueue(sp, c)
	case OpUpdateQueue:
		return m.updateQueue(sp, c)
	case OpDeleteQueue:
		return m.deleteQueue(sp, c)
	case OpSend:
		return m.send(sp, c)
	case OpReceive:
		return m.receive(sp, c)
	case OpReceiveMany:
		return m.receiveMany(sp, c)
	case OpAckAndSend:
		return m.ackAndSend(sp, c)
	case OpClaimAndSend:
		return m.claimAndSend(sp, c)
	default:
		return m.settle(sp, c)
	}
}

// applyUnspooled applies the commands that concern no spool.
func (m *Machine) applyUnspooled(c *Command) Result {
	if !c.valid() {
		return Result{Code: CodeInvalidCommand}
	}
	switch c.Op {
	case OpPutDocument:
		return m.putDocument(c)
	case OpDeleteDocument:
		return m.deleteDocument(c)
	case OpClaim:
		return m.claim(c)
	case OpSettleClaim:
		return m.settleClaim(c)
	default:
		return m.releaseClaim(c)
	}
}

func (m *Machine) init(c *Command) Result {
	if m.clusterID == "" && c.ClusterID != "" {
		m.clusterID, m.secret = c.ClusterID, c.Secret
	}
	return Result{}
}

// AppliedIndex is the index of the last entry applied, 0 before the first.
func (m *Machine) AppliedIndex() uint64 { return m.index }

// NowMs is log time: the latest time of any batch applied.
func (m *Machine) NowMs() int64 { return m.nowMs }

// ClusterID is what OpInit brought, "" before.
func (m *Machine) ClusterID() string { return m.clusterID }

// Sealer makes and opens tokens. It is not ok before OpInit.
func (m *Machine) Sealer() (s Sealer, ok bool) { return Sealer{m.secret}, m.clusterID != "" }

// Hash is a digest of the whole state, kept up to date by every change. It is
// equal on all nodes at equal index.
func (m *Machine) Hash() uint64 {
	h := digest(4).word(uint64(m.nowMs)).word(m.nextQueue).text(m.clusterID).text(string(m.secret[:])).word(m.content)
	m.spools.Scan(func(name string, sp *spool) bool {
		c := &sp.caps
		h = h.text(name).word(c.MaxMessages).word(c.MaxDataBytes).word(c.MaxDedupKeys).word(c.MaxQueues).
			word(uint64(c.MaxRetentionSeconds))
		if sp.suspended {
			h = h.word(1)
		}
		return true
	})
	if m.revision > 0 {
		h = h.word(m.revision)
	}
	return uint64(h)
}

// SpoolState is CodeOK, CodeSpoolNotFound or CodeSpoolSuspended.
func (m *Machine) SpoolState(name string) Code {
	switch sp, ok := m.spools.Get(name); {
	case !ok:
		return CodeSpoolNotFound
	case sp.suspended:
		return CodeSpoolSuspended
	default:
		return CodeOK
	}
}

// own returns a queue that may be changed: q itself, or a fork that takes its
// place where an image may hold q.
func (m *Machine) own(q *queue) *queue {
	if q.epoch != m.epoch {
		q = q.fork(m.epoch)
		m.queues.Set(q.number, q)
	}
	return q
}

func (m *Machine) ownSpool(sp *spool) *spool {
	if sp.epoch != m.epoch {
		c := *sp
		c.epoch = m.epoch
		c.queues = sp.queues.Copy()
		sp = &c
		m.spools.Set(sp.name, sp)
	}
	return sp
}

// find returns the queue of that name, ready to be changed.
func (m *Machine) find(sp *spool, name string) (*queue, bool) {
	number, ok := sp.queues.Get(name)
	if !ok {
		return nil, false
	}
	return m.findNumber(sp, number)
}

func (m *Machine) findNumber(sp *spool, number uint64) (*queue, bool) {
	q, ok := m.queues.Get(number)
	if !ok {
		return nil, false
	}
	if q.drained(m.nowMs) {
		m.dropQueue(sp, q)
		return nil, false
	}
	return m.own(q), true
}

// done enters what a queue now amounts to into the sums of its spool and of the
// machine. Every change of a queue ends here; a queue that has drained goes.
func (m *Machine) done(sp *spool, q *queue) {
	if q.drained(m.nowMs) {
		m.dropQueue(sp, q)
		return
	}
	m.count(sp, q, q.counts())
}

func (q *queue) counts() queueCounts {
	return queueCounts{
		messages: uint64(q.messages.Len()), dataBytes: q.dataBytes, keys: uint64(q.claims.len()),
		digest: q.digest(), dueMs: q.nextDue().atMs,
	}
}

// dropQueue removes a queue with all that it holds. The memory is the garbage
// collector's to free, so that the size of the queue costs nobody time.
func (m *Machine) dropQueue(sp *spool, q *queue) {
	q = m.own(q)
	m.count(sp, q, queueCounts{dueMs: never})
	m.queues.Delete(q.number)
	sp.queues.Delete(q.name)
}

func (m *Machine) count(sp *spool, q *queue, now queueCounts) {
	was := q.counted
	sp.messages += now.messages - was.messages
	sp.dataBytes += now.dataBytes - was.dataBytes
	sp.keys += now.keys - was.keys
	m.content += now.digest - was.digest
	if now.dueMs != was.dueMs {
		m.due.Delete(timed{was.dueMs, q.number})
		if now.dueMs != never {
			m.due.Set(timed{now.dueMs, q.number})
		}
	}
	q.counted = now
}

// newUID names a queue for good. It is derived, since the machine draws no
// random numbers.
func (m *Machine) newUID(number uint64) string {
	h := hmac.New(sha256.New, m.secret[:])
	h.Write([]byte("queue " + strconv.FormatUint(number, 10)))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
