package fsm

import "errors"

// The outcomes of a proposal that never became a [Result]. Every failure of
// agreement is exactly one of them.
var (
	// ErrNotApplied: the command did not enter a log and never will.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown: the command may have been applied, or may yet be.
	ErrUnknown = errors.New("outcome unknown")
	// ErrClosed: this node is shutting down and the command entered no log.
	ErrClosed = errors.New("closed")
)

// Code says what the machine decided. Numbers are part of the peer protocol.
type Code uint8

// The codes. Everything from CodeQueueNotFound on is a refusal: the command
// changed nothing.
const (
	CodeOK             Code = 0
	CodeDuplicate      Code = 1 // a keyed send whose key is remembered; ID is the original's. Or a claim of a settled key
	CodeEmpty          Code = 2 // a receive that found nothing visible
	CodeQueueNotFound  Code = 10
	CodeSpoolNotFound  Code = 11
	CodeSpoolSuspended Code = 12
	CodeQueueExists    Code = 13
	CodeQueueDeleting  Code = 14
	CodeQueueReplaced  Code = 15
	CodeNotFailed      Code = 16
	CodeDedupDisabled  Code = 17
	CodeDedupInFlight  Code = 18 // from the leader's batcher, never from the machine
	CodeDedupClaimed   Code = 19 // an ack-and-send whose key is remembered; ID is the holder's
	CodeStaleToken     Code = 20
	CodeInvalidToken   Code = 21
	CodeRateLimited    Code = 22 // RetryAfterMs is set
	CodeSpoolFull      Code = 23 // Cap and Max are set
	CodeRetentionLimit Code = 24 // Max is set
	CodeQueueLimit     Code = 25 // Max is set
	CodeInvalidCommand Code = 26 // out of bounds; handlers refuse such before they propose
	CodeNotInitialised Code = 27 // no OpInit yet

	CodeDocumentNotFound Code = 28 // of claims: there is no such channel
	CodeVersionConflict  Code = 29 // Version is the document's, 0 where there is none
	CodeDocumentLimit    Code = 30 // Max is set
	CodeClaimInFlight    Code = 31 // another owner's claim; RetryAfterMs is when it lapses
	CodeClaimLost        Code = 32 // the owner has no claim of the key, or none that can be released
	CodeChannelFull      Code = 33 // the channel remembers as many keys as it may; Max is set
)

// Changed reports whether the command changed anything. A duplicate did not.
func (c Code) Changed() bool { return c == CodeOK }

// CapKind names a cap of a spool, for [CodeSpoolFull].
type CapKind uint8

// The caps that can be reached by a send.
const (
	CapMessages  CapKind = 1
	CapDataBytes CapKind = 2
	CapDedupKeys CapKind = 3
)

// MessageID is the queue's number in the cluster and the message's in the
// queue, both from 1.
type MessageID struct {
	Queue   uint64
	Message uint64
}

// Result is the machine's answer to one command. Only the fields that the
// code and the command call for are set.
type Result struct {
	Code             Code
	Cap              CapKind
	ID               MessageID
	Moves            uint32 // of the message, for its handle (sends) or its lease (receives)
	Retries          uint32
	LeaseExpiresAtMs int64 // 0: never. Of OpClaim: when the claim lapses
	RetryAfterMs     int64
	Max              uint64
	Version          uint64 // OpPutDocument: of what was put
	Payload          string
	Queue            *QueueInfo // OpCreateQueue, OpUpdateQueue
	Deliveries       []Delivery // OpReceiveMany, at least one with CodeOK
}

// Delivery is one message of several that a command leased.
type Delivery struct {
	ID               MessageID
	Moves            uint32 // for its lease
	Retries          uint32
	LeaseExpiresAtMs int64 // 0: never
	Payload          string
}

// Outcome is what became of one command among several: its result, or an error
// that is exactly one of [ErrNotApplied], [ErrUnknown] and [ErrClosed], wrapped.
type Outcome struct {
	Result Result
	Err    error
}
