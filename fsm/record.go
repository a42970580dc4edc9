package fsm

import "iter"

// The records are what a saved machine consists of. Package snapshot turns
// them into bytes and back; everything else the machine can derive.

// HeaderRecord is the state that belongs to no spool.
type HeaderRecord struct {
	Index     uint64 // of the last applied log entry
	NowMs     int64  // log time
	NextQueue uint64 // the number of the next queue made
	Secret    Secret
	ClusterID string // "": OpInit has not been applied
	Hash      uint64 // of the whole machine, see [Machine.Hash]
}

// SpoolRecord is a spool without its queues.
type SpoolRecord struct {
	Name      string
	Caps      Caps
	Suspended bool
}

// QueueRecord is a queue without its messages and remembered keys.
type QueueRecord struct {
	Number      uint64
	Spool       string
	Name        string
	CreatedAtMs int64
	State       QueueState
	Settings    Settings
	NextMessage uint64 // the number of the next message
	RateMicros  int64  // when the delivery limit is next at rest, Unix microseconds
	Totals      Totals
}

// MessageRecord is one stored message.
type MessageRecord struct {
	Number          uint64
	State           MessageState // StateVisible (also while delayed), StatePending or StateFailed
	CreatedAtMs     int64
	DueMs           int64 // waiting: visible from; pending: the lease's expiry, 0 never; failed: 0
	Moves           uint32
	Retries         uint32
	LeaseMaxRetries uint32 // pending: the retries at which an expiry fails the message
	Payload         string
}

// ClaimRecord is one remembered key. A queue's claims are recorded in the
// order in which they were made.
type ClaimRecord struct {
	Key         Fingerprint
	Message     uint64
	ClaimedAtMs int64
}

// SavedQueue is a queue of an [Image].
type SavedQueue struct{ q *queue }

// Record returns the queue without its messages and keys.
func (s SavedQueue) Record() QueueRecord { panic("todo") }

// Messages yields the queue's messages in the order of their numbers.
func (s SavedQueue) Messages() iter.Seq[MessageRecord] { panic("todo") }

// Claims yields the queue's remembered keys in the order of their claims.
func (s SavedQueue) Claims() iter.Seq[ClaimRecord] { panic("todo") }

// Image is a machine as it was between two batches. Taking one costs the same
// at any size; it can be read while the machine goes on.
type Image struct{ m *Machine }

// Header returns the state that belongs to no spool.
func (i *Image) Header() HeaderRecord { panic("todo") }

// Spools yields the spools by name.
func (i *Image) Spools() iter.Seq[SpoolRecord] { panic("todo") }

// Queues yields the queues by number.
func (i *Image) Queues() iter.Seq[SavedQueue] { panic("todo") }

// Read answers q as of the image's time.
func (i *Image) Read(q Query) Answer { panic("todo") }

// Builder makes a machine out of records: a header, then spools, then queues,
// each followed by its messages and then its claims.
type Builder struct{ m *Machine }

// NewBuilder starts with the header.
func NewBuilder(h HeaderRecord) *Builder { panic("todo") }

// AddSpool adds a spool. Names must ascend.
func (b *Builder) AddSpool(r SpoolRecord) error { panic("todo") }

// AddQueue adds a queue. Numbers must ascend and the spool must be there.
func (b *Builder) AddQueue(r QueueRecord) error { panic("todo") }

// AddMessage adds a message to the last queue. Numbers must ascend.
func (b *Builder) AddMessage(r MessageRecord) error { panic("todo") }

// AddClaim adds a remembered key to the last queue.
func (b *Builder) AddClaim(r ClaimRecord) error { panic("todo") }

// Finish returns the machine, or an error where the records contradict each
// other or do not have the header's hash.
func (b *Builder) Finish() (*Machine, error) { panic("todo") }
