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
	if !c.needSealer() || c.s.draining.Err() != nil {
		return problemUnavailable
	}
	wait := time.Duration(c.query.waitSeconds) * time.Second
	// The request's context ends when the client goes, and when the server shuts
	// down.
	ctx, cancel := context.WithTimeout(c.r.Context(), wait+callTimeout)
	defer cancel()
	result, err := c.s.broker.Receive(ctx, c.spool, c.queue, wait)
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
	lease := tokenOf(fsm.Lease, &result)
	if gone {
		c.undo(lease)
		c.answer(http.StatusNoContent)
	} else if c.deliver(&result, lease) != nil {
		c.outcome = outcomeClientGone
		c.undo(lease)
	}
	return nil
}

// deliver writes a granted message and makes sure that it has left this
// process, as far as the connection tells.
func (c *call) deliver(r *fsm.Result, lease fsm.Token) error {
	c.setMessageID(r.ID)
	c.set(headerLease, c.sealer.Seal(lease))
	if r.LeaseExpiresAtMs != 0 {
		c.set(headerLeaseExpiresAt, formatTime(r.LeaseExpiresAtMs))
	}
	c.set(headerRetries, strconv.FormatUint(uint64(r.Retries), 10))
	if err := c.answerBody(http.StatusOK, typePayload, r.Payload); err != nil {
		return err
	}
	err := http.NewResponseController(c.w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// undo gives back a lease that nobody holds. Where that fails, the lease ends
// by its timeout.
func (c *call) undo(lease fsm.Token) {
	_, _ = c.do(&fsm.Command{Op: fsm.OpRelease, Spool: c.spool, Token: lease})
}

// clientGone reports whether the client has closed its connection. A shutdown
// ends the context too, but its client is still there for an answer.
func (c *call) clientGone() bool {
	ctx := c.r.Context()
	return ctx.Err() != nil && context.Cause(ctx) != errDraining
}
