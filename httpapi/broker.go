package httpapi

import (
	"context"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Broker is what the handlers need of a node. Its errors are exactly one of
// [fsm.ErrNotApplied], [fsm.ErrUnknown] and [fsm.ErrClosed], wrapped or not.
type Broker interface {
	// Do proposes one command and waits for its result.
	Do(ctx context.Context, c *fsm.Command) (fsm.Result, error)
	// DoAll proposes commands together and waits for all. They are applied in
	// their order, and each has an outcome of its own.
	DoAll(ctx context.Context, cs []fsm.Command) []fsm.Outcome
	// Receive grants the oldest visible message of the queue, waiting up to
	// wait for one. The code is fsm.CodeEmpty where none came. Where ctx is over
	// by the time of the grant, the grant is undone.
	Receive(ctx context.Context, spool, queue string, wait time.Duration) (fsm.Result, error)
	// ReceiveMany is Receive for up to count messages, of which all but the first
	// have no more than maxBytes of payload together. It waits for one.
	ReceiveMany(ctx context.Context, spool, queue string, count, maxBytes uint32, wait time.Duration) (fsm.Result, error)
	// Read answers linearizably.
	Read(ctx context.Context, q fsm.Query) (fsm.Answer, error)
	// Sealer makes and opens tokens. It is not ok until this node has the
	// cluster's secret.
	Sealer() (fsm.Sealer, bool)
	// SpoolState is this node's own view of a spool: fsm.CodeOK, or why it
	// can't be used.
	SpoolState(spool string) fsm.Code
	// Ready is nil where a leader is known and this node has caught up. Else it
	// says why not, in words for people and without addresses.
	Ready() error
}
