package channel

import (
	"context"
	"errors"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Claim names an owner's claim of a key in a channel's name.
type Claim struct {
	Channel string
	Key     fsm.Fingerprint
	Owner   fsm.Owner
}

// Terms say how long a claim counts.
type Terms struct {
	Window time.Duration // for which the key is remembered
	Lapse  time.Duration // after which others may take a claim that was not settled
}

// Verdict is what a store says of a claim.
type Verdict uint8

// The verdicts.
const (
	Claimed   Verdict = 1
	Duplicate Verdict = 2 // the key is settled
	InFlight  Verdict = 3 // another owner has it
)

// Decision is a verdict, and for InFlight how long until the other claim lapses.
type Decision struct {
	Verdict    Verdict
	RetryAfter time.Duration
}

// ErrClaimLost says that a settle or release changed nothing, since the claim is
// not its owner's, or not any more.
var ErrClaimLost = errors.New("the claim is not its owner's any more")

// Store remembers claims. Every operation is atomic, and compares owners. An
// error other than [ErrClaimLost] means that the store can't answer; the
// operation may have happened nonetheless.
type Store interface {
	Claim(ctx context.Context, c Claim, t Terms) (Decision, error)
	// Settle keeps the key for a window from now.
	Settle(ctx context.Context, c Claim, window time.Duration) error
	// Release frees the key, unless it is settled.
	Release(ctx context.Context, c Claim) error
}

// Message is what an enqueue step appends.
type Message struct {
	EnqueueStep
	Body []byte
}

// AtomicStore is a store beside the queues: it claims, appends and settles at
// once, or does nothing of it. The error is exactly one of [fsm.ErrNotApplied],
// [fsm.ErrUnknown] and [fsm.ErrClosed], wrapped, or a [*StepError].
type AtomicStore interface {
	Store
	ClaimAndAppend(ctx context.Context, c Claim, t Terms, m Message) (Decision, error)
}
