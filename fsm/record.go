package fsm

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
	Revision  uint64 // see [Machine.Revision]
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

// DocumentRecord is a connector, or what a channel is configured by.
type DocumentRecord struct {
	Name        string
	Version     uint64
	ChangedAtMs int64
	Document    string
}

// ChannelRecord is a channel without its claims.
type ChannelRecord struct {
	DocumentRecord
	Totals ClaimTotals
}

// ChannelClaimRecord is a claim that was made in a channel's name.
type ChannelClaimRecord struct {
	Key          Fingerprint
	Owner        Owner
	ClaimedAtMs  int64
	LapsesAtMs   int64 // 0 once it is settled
	WindowEndsMs int64
	Settled      bool
}
