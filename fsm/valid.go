package fsm

// valid reports whether a command's fields are within their bounds. Handlers
// refuse what is not with a better explanation; this keeps the state sound
// whoever proposes.
func (c *Command) valid() bool {
	has := fieldsOf(c.Op)
	switch {
	case has == 0,
		has&hasQueue != 0 && !ValidName(c.Queue),
		has&hasDelay != 0 && c.DelaySeconds > MaxDelaySeconds,
		has&hasPayload != 0 && len(c.Payload) > MaxPayloadBytes,
		has&hasPatch != 0 && !c.Patch.Valid(),
		has&hasLimit != 0 && (c.Count < 1 || c.Count > MaxReceiveCount || c.MaxBytes > MaxPayloadBytes),
		has&(hasDocument|hasClaim) != 0 && !ValidName(c.Name),
		has&hasDocument != 0 && !c.Kind.known(),
		has&hasWindow != 0 && (c.WindowSeconds < 1 || c.WindowSeconds > MaxClaimWindowSeconds),
		has&hasLapse != 0 && (c.LapseMs < 1 || c.LapseMs > MaxClaimLapseMs),
		has&hasMaxKeys != 0 && c.MaxKeys < 1,
		c.Op == OpPutDocument && len(c.Payload) > MaxDocumentBytes,
		c.Op == OpUpdateQueue && c.Patch.Set == 0,
		len(c.UID) > maxUIDBytes:
		return false
	}
	return true
}

// takes reports whether an op works on a token of that sort.
func (op Op) takes(sort TokenSort) bool {
	switch op {
	case OpDiscard:
		return sort == Lease || sort == Handle
	case OpRecover:
		return sort == Handle
	default:
		return sort == Lease
	}
}
