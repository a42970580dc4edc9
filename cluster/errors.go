package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// The reasons for which a command is refused before it enters a log. All but
// the first are final; with errNotLeader it may be offered to another node.
var (
	errNotLeader = fmt.Errorf("%w: no leader is known to this node", fsm.ErrNotApplied)
	errBusy      = fmt.Errorf("%w: too many commands are waiting", fsm.ErrNotApplied)
	errDiskFull  = fmt.Errorf("%w: the disk of the leader is nearly full", fsm.ErrNotApplied)
	errGone      = fmt.Errorf("%w: the caller gave up", fsm.ErrNotApplied)
)

// translate turns an error of a raft proposal into one of ours. It is the only
// place that knows raft's errors. handed says whether raft took the proposal.
//
// In raft v1.7.3 a future answers these three only before its entry is
// appended: ErrNotLeader from the loops of followers and candidates and from a
// leader that is stepping down, ErrLeadershipTransferInProgress from a leader
// that hands over, ErrEnqueueTimeout where nobody took the proposal. Everything
// else may come after the entry went to disk or to a follower.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return errBusy
	default:
		return fmt.Errorf("%w: %w", fsm.ErrUnknown, err)
	}
}

// unknown is the outcome of a proposal that nobody waits for any longer.
func unknown(why string) error { return fmt.Errorf("%w: %s", fsm.ErrUnknown, why) }

// outcomeCode is how an outcome travels between nodes.
type outcomeCode uint8

const (
	outcomeResult    outcomeCode = 0
	outcomeNotLeader outcomeCode = 1 // in no log; may be offered elsewhere
	outcomeRefused   outcomeCode = 2 // in no log
	outcomeUnknown   outcomeCode = 3
)

func codeOf(err error) outcomeCode {
	switch {
	case err == nil:
		return outcomeResult
	case err == errNotLeader, errors.Is(err, fsm.ErrClosed):
		return outcomeNotLeader
	case errors.Is(err, fsm.ErrNotApplied):
		return outcomeRefused
	default:
		return outcomeUnknown
	}
}

func (c outcomeCode) err() error {
	switch c {
	case outcomeResult:
		return nil
	case outcomeNotLeader:
		return errNotLeader
	case outcomeRefused:
		return fmt.Errorf("%w: the leader refused", fsm.ErrNotApplied)
	default:
		return unknown("the leader could not tell")
	}
}

// cancelled is a context's end as an outcome of something that changed nothing.
func cancelled(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errGone, context.Cause(ctx))
}

// unknownSince is a context's end as an outcome of something that may happen yet.
func unknownSince(ctx context.Context) error {
	return fmt.Errorf("%w: %w", fsm.ErrUnknown, context.Cause(ctx))
}
