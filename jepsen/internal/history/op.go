package history

import "time"

// Outcome is what a caller knows about a change after its answer.
type Outcome string

// The three outcomes. They follow the status of an answer, never its text.
const (
	OK      Outcome = "ok"      // 2xx: it happened
	Refused Outcome = "refused" // 4xx, 503, 507, or never sent: it did not happen and never will
	Unknown Outcome = "unknown" // anything else, and a lost connection: it may have happened
)

// Kind names what an operation asked for.
type Kind string

// The kinds of operation.
const (
	Send        Kind = "send"
	Recv        Kind = "recv"
	Ack         Kind = "ack"
	Nack        Kind = "nack"
	Release     Kind = "release"
	Fail        Kind = "fail"
	Discard     Kind = "discard"
	Renew       Kind = "renew"
	Inspect     Kind = "inspect"
	Recover     Kind = "recover"
	AckAndSend  Kind = "ack_and_send"
	QueueCreate Kind = "queue_create"
	QueueUpdate Kind = "queue_update"
	QueueDelete Kind = "queue_delete"
	QueueGet    Kind = "queue_get"
	ReadStats   Kind = "stats"
	ReadItems   Kind = "messages"
)

// Op is one call and its outcome. Fields that a kind does not use stay empty.
type Op struct {
	ID     int64  `json:"id"`
	Client int    `json:"client"` // -1: the runner itself
	Kind   Kind   `json:"kind"`
	Node   string `json:"node"`
	Start  int64  `json:"start"` // nanoseconds since the run began
	End    int64  `json:"end"`

	Queue        string    `json:"queue,omitempty"`
	Key          string    `json:"key,omitempty"`
	Payload      string    `json:"payload,omitempty"` // sent, or received
	DelaySeconds int       `json:"delaySeconds,omitempty"`
	WaitSeconds  int       `json:"waitSeconds,omitempty"`
	TokenOp      int64     `json:"tokenOp,omitempty"` // the operation that issued the lease or handle used
	TokenMessage string    `json:"tokenMessage,omitempty"`
	ByHandle     bool      `json:"byHandle,omitempty"`   // the token is a handle, not a lease
	Expect       string    `json:"expect,omitempty"`     // the error kind that the caller provoked
	Settings     *Settings `json:"settings,omitempty"`   // asked for, or answered
	StaleRead    bool      `json:"staleRead,omitempty"`  // the node's own state was asked for
	DeleteMode   string    `json:"deleteMode,omitempty"` // force or drain

	Outcome        Outcome   `json:"outcome"`
	Status         int       `json:"status,omitempty"` // 0: no answer
	ErrorKind      string    `json:"errorKind,omitempty"`
	Error          string    `json:"error,omitempty"`
	MessageID      string    `json:"messageId,omitempty"`
	Retries        int       `json:"retries,omitempty"`
	State          string    `json:"state,omitempty"`
	LeaseExpiresAt time.Time `json:"leaseExpiresAt,omitzero"`
	QueueUID       string    `json:"queueUid,omitempty"`
	AppliedIndex   uint64    `json:"appliedIndex,omitempty"`
	Stats          *Stats    `json:"stats,omitempty"`
	Items          []Item    `json:"items,omitempty"`

	Lease  string `json:"-"` // the token answered; kept in memory only
	Handle string `json:"-"`
}

// Applied reports whether the change may have happened.
func (o *Op) Applied() bool { return o.Outcome != Refused }

// Settings are those of a queue. A nil field was not given.
type Settings struct {
	LeaseTimeoutSeconds *int `json:"leaseTimeoutSeconds,omitempty"`
	MaxRetries          *int `json:"maxRetries,omitempty"`
	DedupWindowSeconds  *int `json:"dedupWindowSeconds,omitempty"`
	RetentionSeconds    *int `json:"retentionSeconds,omitempty"`
}

// Stats are the counts of a queue, as answered.
type Stats struct {
	Total          int64 `json:"total"`
	DataBytes      int64 `json:"dataBytes"`
	Delayed        int64 `json:"delayed"`
	Visible        int64 `json:"visible"`
	Pending        int64 `json:"pending"`
	Failed         int64 `json:"failed"`
	Unavailable    int64 `json:"unavailable"`
	AddedTotal     int64 `json:"addedTotal"`
	AckedTotal     int64 `json:"ackedTotal"`
	NackedTotal    int64 `json:"nackedTotal"`
	ReleasedTotal  int64 `json:"releasedTotal"`
	FailedTotal    int64 `json:"failedTotal"`
	DiscardedTotal int64 `json:"discardedTotal"`
	ExpiredTotal   int64 `json:"expiredTotal"`
}

// Item is one message of a listing.
type Item struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Retries int    `json:"retries"`
	Handle  string `json:"-"`
}
