package fsm

// QueueState is where a queue is in its life.
type QueueState uint8

// The states. Numbers are part of the snapshot format. A forced removal drops
// the whole queue in its own log entry, so that no state of its own is needed.
const (
	QueueActive   QueueState = 1
	QueueDraining QueueState = 2 // no sends; goes with its last message
)

// MessageState is where a message is in its life, as a reader sees it.
type MessageState uint8

// The states. A message whose delay is over is visible.
const (
	AnyState         MessageState = 0
	StateDelayed     MessageState = 1
	StateVisible     MessageState = 2
	StatePending     MessageState = 3
	StateFailed      MessageState = 4
	StateUnavailable MessageState = 5 // payload unreadable: never, while payloads are in memory
)

// QueueInfo describes a queue.
type QueueInfo struct {
	Name                      string
	UID                       string
	CreatedAtMs               int64
	State                     QueueState
	Settings                  Settings
	EffectiveRetentionSeconds uint32
}

// Totals count what has happened in a queue since its creation.
type Totals struct {
	Added, Acked, Nacked, Released, Failed, Discarded, Expired uint64
}

// Stats of a queue, or the sum over a spool's queues.
type Stats struct {
	Total, DataBytes                               uint64
	Delayed, Visible, Pending, Failed, Unavailable uint64
	Totals                                         Totals
	DedupKeys                                      uint64 // keys remembered now
	OldestMs                                       int64  // creation of the oldest stored message, 0: none; in a sum the earliest
}

// QueueStats is a queue with its stats.
type QueueStats struct {
	QueueInfo
	Stats Stats
}

// MessageInfo describes a message without its payload. Times are Unix
// milliseconds, 0 where they do not apply; ExpiresAtMs always does.
type MessageInfo struct {
	ID               MessageID
	State            MessageState
	Retries          uint32
	Moves            uint32 // for a handle
	CreatedAtMs      int64
	VisibleAtMs      int64 // delayed, visible
	LeaseExpiresAtMs int64 // pending, unless the lease never expires
	ExpiresAtMs      int64
}

// QueryKind says what a [Query] asks for.
type QueryKind uint8

// The queries. The comment names the fields of [Query] that each takes beside
// Kind and Spool, and the field of [Answer] that holds what it found.
const (
	QueryQueue    QueryKind = 1 // Queue -> Queues[0]
	QueryQueues   QueryKind = 2 // Match, Limit, After -> Queues, More
	QueryStats    QueryKind = 3 // Names, Match, Limit, After -> QueueCount, Sum, Queues, More
	QueryMessages QueryKind = 4 // Queue, State, Limit, AfterMessage -> Messages, More
	QueryInspect  QueryKind = 5 // Token (handle) -> Messages[0], Payload

	// Those of documents take no Spool.
	QueryDocument  QueryKind = 6 // Document, Name -> Revision, Documents[0] without Claims
	QueryDocuments QueryKind = 7 // Document, Limit, After -> Revision, Documents, More
)

// Query asks for a part of the state.
type Query struct {
	Kind         QueryKind
	Spool        string
	Queue        string
	Names        []string // only these queues; nil: all
	Match        string   // an unanchored RE2 expression; "": all
	Limit        int      // at least 1
	After        string   // a queue's or document's name
	AfterMessage uint64   // a message's number in the queue
	State        MessageState
	Token        Token
	Document     DocumentKind
	Name         string // of a document
}

// Answer is what a [Query] found. Code is CodeOK, or why nothing is here.
type Answer struct {
	Code         Code
	AppliedIndex uint64
	More         bool // there is a next page
	QueueCount   uint64
	Sum          Stats
	Queues       []QueueStats // Stats are set for QueryStats only
	QueueNumber  uint64       // QueryMessages
	Messages     []MessageInfo
	Payload      string
	Revision     uint64 // see [Machine.Revision]
	Documents    []DocumentInfo
}

// DocumentInfo is a document, and what a channel remembers.
type DocumentInfo struct {
	Name        string
	Version     uint64
	ChangedAtMs int64
	Document    string
	Claims      ClaimStats // of a channel
}

// Light reports whether the query costs little enough to be answered while the
// machine is held. The others are for an [Image].
func (q Query) Light() bool {
	return q.Kind == QueryQueue || q.Kind == QueryInspect || q.Kind == QueryDocument
}
