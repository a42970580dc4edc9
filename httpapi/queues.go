package httpapi

import (
	"net/http"

	"github.com/spoolraft/spoolraft/fsm"
)

// rateJSON and the types below are what the contract shows of the state.
type rateJSON struct {
	IntervalMicros uint64 `json:"intervalMicros"`
	Burst          uint64 `json:"burst"`
}

type settingsJSON struct {
	LeaseTimeoutSeconds       uint32    `json:"leaseTimeoutSeconds"`
	MaxRetries                uint32    `json:"maxRetries"`
	DedupWindowSeconds        uint32    `json:"dedupWindowSeconds"`
	RetentionSeconds          uint32    `json:"retentionSeconds"`
	EffectiveRetentionSeconds uint32    `json:"effectiveRetentionSeconds"`
	RecvRateLimit             *rateJSON `json:"recvRateLimit"` // null when off
}

type queueJSON struct {
	Name      string       `json:"name"`
	UID       string       `json:"uid"`
	CreatedAt string       `json:"createdAt"`
	State     string       `json:"state"`
	Settings  settingsJSON `json:"settings"`
}

var queueStateNames = [...]string{fsm.QueueActive: "active", fsm.QueueDraining: "draining"}

func queueOf(q *fsm.QueueInfo) queueJSON {
	s := q.Settings
	out := queueJSON{
		Name:      q.Name,
		UID:       q.UID,
		CreatedAt: formatTime(q.CreatedAtMs),
		State:     queueStateNames[q.State],
		Settings: settingsJSON{
			LeaseTimeoutSeconds:       s.LeaseTimeoutSeconds,
			MaxRetries:                s.MaxRetries,
			DedupWindowSeconds:        s.DedupWindowSeconds,
			RetentionSeconds:          s.RetentionSeconds,
			EffectiveRetentionSeconds: q.EffectiveRetentionSeconds,
		},
	}
	if rate := s.RecvRateLimit; rate != (fsm.RateLimit{}) {
		out.Settings.RecvRateLimit = &rateJSON{IntervalMicros: rate.IntervalMicros, Burst: rate.Burst}
	}
	return out
}

func createQueue(c *call) *problem {
	patch, p := parseSettings(c.payload)
	if p != nil {
		return p
	}
	result, p := c.do(&fsm.Command{Op: fsm.OpCreateQueue, Spool: c.spool, Queue: c.queue, Patch: patch})
	if p != nil {
		return p
	}
	c.answerJSON(http.StatusCreated, queueOf(result.Queue))
	return nil
}

func updateQueue(c *call) *problem {
	patch, p := parseSettings(c.payload)
	if p != nil {
		return p
	}
	if patch.Set == 0 {
		return badRequest("The body names no setting to change")
	}
	result, p := c.do(&fsm.Command{Op: fsm.OpUpdateQueue, Spool: c.spool, Queue: c.queue, Patch: patch})
	if p != nil {
		return p
	}
	c.answerJSON(http.StatusOK, queueOf(result.Queue))
	return nil
}

func deleteQueue(c *call) *problem {
	if c.query.given&paramMode.bit() == 0 {
		return badRequest("The query parameter mode is missing: it must be force or drain")
	}
	_, p := c.do(&fsm.Command{Op: fsm.OpDeleteQueue, Spool: c.spool, Queue: c.queue, Drain: c.query.drain, UID: c.query.uid})
	if p != nil {
		return p
	}
	c.answer(http.StatusAccepted)
	return nil
}

func getQueue(c *call) *problem {
	answer, p := c.read(fsm.Query{Kind: fsm.QueryQueue, Queue: c.queue})
	if p != nil {
		return p
	}
	c.answerJSON(http.StatusOK, queueOf(&answer.Queues[0].QueueInfo))
	return nil
}
