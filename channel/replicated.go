package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Proposer gets commands agreed on. The error is exactly one of
// [fsm.ErrNotApplied], [fsm.ErrUnknown] and [fsm.ErrClosed], wrapped.
type Proposer interface {
	Do(ctx context.Context, c *fsm.Command) (fsm.Result, error)
}

// ReplicatedStore keeps claims in the cluster's own state.
type ReplicatedStore struct{ proposer Proposer }

// NewReplicatedStore returns a store that proposes there.
func NewReplicatedStore(p Proposer) *ReplicatedStore { return &ReplicatedStore{p} }

func command(op fsm.Op, c Claim, window time.Duration) *fsm.Command {
	return &fsm.Command{
		Op: op, Name: c.Channel, Key: c.Key, Owner: c.Owner, MaxKeys: MaxKeys, WindowSeconds: uint32(window / time.Second),
	}
}

// Claim implements [Store].
func (s *ReplicatedStore) Claim(ctx context.Context, c Claim, t Terms) (Decision, error) {
	cmd := command(fsm.OpClaim, c, t.Window)
	cmd.LapseMs = uint32(t.Lapse.Milliseconds())
	r, err := s.proposer.Do(ctx, cmd)
	if err != nil {
		return Decision{}, err
	}
	return decide(r)
}

// decide turns the machine's answer to a claim into a decision.
func decide(r fsm.Result) (Decision, error) {
	switch r.Code {
	case fsm.CodeOK:
		return Decision{Verdict: Claimed}, nil
	case fsm.CodeDuplicate:
		return Decision{Verdict: Duplicate}, nil
	case fsm.CodeClaimInFlight:
		return Decision{Verdict: InFlight, RetryAfter: time.Duration(r.RetryAfterMs) * time.Millisecond}, nil
	case fsm.CodeChannelFull:
		return Decision{}, fmt.Errorf("%w (%w)", errFull, fsm.ErrNotApplied)
	default:
		return Decision{}, fmt.Errorf("the claim was refused with code %d: %w", r.Code, fsm.ErrNotApplied)
	}
}

// Settle implements [Store].
func (s *ReplicatedStore) Settle(ctx context.Context, c Claim, window time.Duration) error {
	return s.end(ctx, command(fsm.OpSettleClaim, c, window))
}

// Release implements [Store].
func (s *ReplicatedStore) Release(ctx context.Context, c Claim) error {
	return s.end(ctx, command(fsm.OpReleaseClaim, c, 0))
}

// end ends a claim. With its channel a claim is gone.
func (s *ReplicatedStore) end(ctx context.Context, cmd *fsm.Command) error {
	r, err := s.proposer.Do(ctx, cmd)
	switch {
	case err != nil:
		return err
	case r.Code != fsm.CodeOK:
		return ErrClaimLost
	}
	return nil
}

// ClaimAndAppend implements [AtomicStore], in one log entry.
func (s *ReplicatedStore) ClaimAndAppend(ctx context.Context, c Claim, t Terms, m Message) (Decision, error) {
	cmd := command(fsm.OpClaimAndSend, c, t.Window)
	cmd.Spool, cmd.Queue, cmd.DelaySeconds, cmd.Payload = m.Spool, m.Queue, m.DelaySeconds, string(m.Body)
	r, err := s.proposer.Do(ctx, cmd)
	if err != nil {
		return Decision{}, err
	}
	switch r.Code {
	case fsm.CodeOK, fsm.CodeDuplicate, fsm.CodeClaimInFlight, fsm.CodeChannelFull, fsm.CodeDocumentNotFound:
		return decide(r)
	default:
		return Decision{}, &StepError{What: fmt.Sprintf("the queue refused the message with code %d", r.Code)}
	}
}
