package model

import (
	"regexp"

	"github.com/spoolraft/spoolraft/fsm"
)

var name = regexp.MustCompile(`^[A-Za-z0-9_:-]{1,128}$`)

// wellFormed reports whether a command of an existing spool is within the
// bounds that the contract sets.
func wellFormed(c *fsm.Command) bool {
	if c.DelaySeconds > 604_800 || len(c.Payload) > 64<<20 {
		return false
	}
	switch c.Op {
	case fsm.OpCreateQueue:
		return name.MatchString(c.Queue) && wellFormedPatch(c.Patch)
	case fsm.OpUpdateQueue:
		return name.MatchString(c.Queue) && wellFormedPatch(c.Patch) && c.Patch.Set != 0
	case fsm.OpReceiveMany:
		return name.MatchString(c.Queue) && c.Count >= 1 && c.Count <= 1_000 && c.MaxBytes <= 32<<20
	case fsm.OpClaimAndSend:
		return name.MatchString(c.Queue) && wellFormedClaim(c) && c.MaxKeys >= 1
	case fsm.OpDeleteQueue, fsm.OpSend, fsm.OpReceive, fsm.OpAckAndSend:
		return name.MatchString(c.Queue)
	default:
		return true
	}
}

func wellFormedPatch(p fsm.Patch) bool {
	within := func(f fsm.Field, v, least, most uint64) bool {
		return p.Set&f == 0 || least <= v && v <= most
	}
	rate := p.To.RecvRateLimit
	noRate := rate == fsm.RateLimit{}
	return p.Set < 32 &&
		within(fsm.FieldLeaseTimeout, uint64(p.To.LeaseTimeoutSeconds), 0, 43_200) &&
		within(fsm.FieldMaxRetries, uint64(p.To.MaxRetries), 0, 1_000) &&
		within(fsm.FieldDedupWindow, uint64(p.To.DedupWindowSeconds), 0, 604_800) &&
		within(fsm.FieldRetention, uint64(p.To.RetentionSeconds), 60, 1_209_600) &&
		(noRate || within(fsm.FieldRecvRateLimit, rate.IntervalMicros, 1, 3_600_000_000)) &&
		(noRate || within(fsm.FieldRecvRateLimit, rate.Burst, 1, 1_000_000))
}

// wellFormedUnspooled is wellFormed for commands of documents and claims.
func wellFormedUnspooled(c *fsm.Command) bool {
	if !name.MatchString(c.Name) {
		return false
	}
	kind := c.Kind == fsm.ChannelDocument || c.Kind == fsm.ConnectorDocument
	switch c.Op {
	case fsm.OpPutDocument:
		return kind && len(c.Payload) <= 65_536
	case fsm.OpDeleteDocument:
		return kind
	case fsm.OpClaim:
		return wellFormedClaim(c) && c.LapseMs >= 1 && c.LapseMs <= 86_400_000 && c.MaxKeys >= 1
	case fsm.OpSettleClaim:
		return wellFormedClaim(c)
	default:
		return true
	}
}

func wellFormedClaim(c *fsm.Command) bool {
	return name.MatchString(c.Name) && c.WindowSeconds >= 1 && c.WindowSeconds <= 604_800
}
