package httpapi

import (
	"net/http"

	"github.com/spoolraft/spoolraft/fsm"
)

func send(c *call) *problem {
	return c.append(&fsm.Command{Op: fsm.OpSend})
}

func ackAndSend(c *call) *problem {
	return c.append(&fsm.Command{Op: fsm.OpAckAndSend, Token: c.token})
}

// append proposes a command that stores the body.
func (c *call) append(command *fsm.Command) *problem {
	if c.query.handle && !c.needSealer() {
		return problemUnavailable
	}
	command.Spool, command.Queue = c.spool, c.queue
	command.DelaySeconds = c.delaySeconds
	command.Keyed, command.Key = c.keyed, c.dedupKey
	command.Payload = c.payload
	result, p := c.do(command)
	if result.Code == fsm.CodeDuplicate || result.Code == fsm.CodeDedupClaimed {
		c.s.metrics.dedupHits.Inc()
	}
	if p != nil {
		return p
	}
	c.setMessageID(result.ID)
	if result.Code == fsm.CodeDuplicate {
		c.outcome = outcomeDuplicate
		c.answer(http.StatusOK)
		return nil
	}
	if c.query.handle {
		c.set(headerHandle, c.sealer.Seal(tokenOf(fsm.Handle, &result)))
	}
	c.answer(http.StatusCreated)
	return nil
}

// tokenOf names the message of a result as it is then.
func tokenOf(sort fsm.TokenSort, r *fsm.Result) fsm.Token {
	return fsm.Token{Sort: sort, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}
}
