package httpapi

import (
	"net/http"
	"strconv"

	"github.com/spoolraft/spoolraft/fsm"
)

// settle runs the calls that name a message by its token and nothing else.
func settle(c *call) *problem {
	result, p := c.do(&fsm.Command{Op: c.op.command, Spool: c.spool, Token: c.token, DelaySeconds: c.delaySeconds})
	if p != nil {
		return p
	}
	c.messageID = fsm.MessageID{Queue: c.token.Queue, Message: c.token.Message}
	if result.LeaseExpiresAtMs != 0 && c.op.command == fsm.OpRenew {
		c.set(headerLeaseExpiresAt, formatTime(result.LeaseExpiresAtMs))
	}
	c.answer(http.StatusNoContent)
	return nil
}

func inspect(c *call) *problem {
	answer, p := c.read(fsm.Query{Kind: fsm.QueryInspect, Token: c.token})
	if p != nil {
		return p
	}
	m := &answer.Messages[0]
	c.setMessageID(m.ID)
	c.set(headerState, stateNames[m.State])
	c.set(headerRetries, strconv.FormatUint(uint64(m.Retries), 10))
	_ = c.answerBody(http.StatusOK, typePayload, answer.Payload)
	return nil
}
