package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func receive(c *call) *problem {
	return c.receiveWith(func(ctx context.Context, wait time.Duration) (fsm.Result, error) {
		return c.s.broker.Receive(ctx, c.spool, c.queue, wait)
	}, c.deliver)
}

// receiveWith asks the Broker for messages and delivers what was granted, or gives
// it back where nobody is there to take it.
func (c *call) receiveWith(ask func(context.Context, time.Duration) (fsm.Result, error), deliver func(*fsm.Result) error) *problem {
	if !c.needSealer() || c.s.draining.Err() != nil {
		return problemUnavailable
	}
	wait := time.Duration(c.query.waitSeconds) * time.Second
	// The request's context ends when the client goes, and when the server shuts
	// down.
	ctx, cancel := context.WithTimeout(c.r.Context(), wait+callTimeout)
	defer cancel()
	result, err := ask(ctx, wait)
	gone := c.clientGone()
	if gone {
		c.outcome = outcomeClientGone
	}
	switch {
	case err != nil:
		return problemOfError(err)
	case result.Code == fsm.CodeEmpty:
		if !gone {
			c.outcome = outcomeEmpty
		}
		c.answer(http.StatusNoContent)
		return nil
	}
	if p := problemOfResult(&result, c.queue); p != nil {
		return p
	}
	if gone {
		c.undo(&result)
		c.answer(http.StatusNoContent)
	} else if deliver(&result) != nil {
		c.outcome = outcomeClientGone
		c.undo(&result)
	}
	return nil
}

// deliver writes a granted message and makes sure that it has left this
// process, as far as the connection tells.
func (c *call) deliver(r *fsm.Result) error {
	c.setMessageID(r.ID)
	c.set(headerLease, c.sealer.Seal(tokenOf(fsm.Lease, r)))
	if r.LeaseExpiresAtMs != 0 {
		c.set(headerLeaseExpiresAt, formatTime(r.LeaseExpiresAtMs))
	}
	c.set(headerRetries, strconv.FormatUint(uint64(r.Retries), 10))
	if err := c.answerBody(http.StatusOK, typePayload, r.Payload); err != nil {
		return err
	}
	return c.flush()
}

// flush hands what was answered to the connection.
func (c *call) flush() error {
	err := http.NewResponseController(c.w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// undo gives back leases that nobody holds. Where that fails, they end by their
// timeout.
func (c *call) undo(r *fsm.Result) {
	leases := []fsm.Token{tokenOf(fsm.Lease, r)}
	if len(r.Deliveries) > 0 {
		leases = leases[:0]
	}
	for i := range r.Deliveries {
		leases = append(leases, leaseOf(&r.Deliveries[i]))
	}
	releases := make([]fsm.Command, len(leases))
	for i, lease := range leases {
		releases[i] = fsm.Command{Op: fsm.OpRelease, Spool: c.spool, Token: lease}
	}
	_ = c.doAll(releases)
}

// clientGone reports whether the client has closed its connection. A shutdown
// ends the context too, but its client is still there for an answer.
func (c *call) clientGone() bool {
	ctx := c.r.Context()
	return ctx.Err() != nil && context.Cause(ctx) != errDraining
}
