package fsm

// message is a stored message. It is a value: a change makes another.
type message struct {
	payload         string
	createdAtMs     int64
	dueMs           int64 // waiting: visible from; pending: lease expiry, 0 never; failed: 0
	moves           uint32
	sum             uint32 // of the payload, for the hash
	retries         uint16
	leaseMaxRetries uint16       // pending: retries at which an expiry fails it
	state           MessageState // StateVisible stands for delayed too
}

func (x message) digest(number uint64) uint64 {
	return uint64(digest(1).word(number).word(uint64(x.createdAtMs)).word(uint64(x.dueMs)).
		word(uint64(x.moves)<<32 | uint64(x.sum)).
		word(uint64(len(x.payload))).
		word(uint64(x.retries)<<32 | uint64(x.leaseMaxRetries)<<16 | uint64(x.state)))
}

// leaseOver reports whether a lease has expired, noticed or not.
func (x message) leaseOver(nowMs int64) bool {
	return x.state == StatePending && x.dueMs != 0 && x.dueMs <= nowMs
}

// returned is x back in its queue, visible from then on.
func (x message) returned(visibleAtMs int64) message {
	x.state, x.dueMs, x.leaseMaxRetries = StateVisible, visibleAtMs, 0
	x.moves++
	return x
}

// failed is x parked.
func (x message) failed() message {
	x.state, x.dueMs, x.leaseMaxRetries = StateFailed, 0, 0
	x.moves++
	return x
}

// retried is x after a try that did not work: back from atMs on, or failed
// where its retries have reached the bound.
func (x message) retried(atMs int64, maxRetries uint16) message {
	if x.retries >= maxRetries {
		return x.failed()
	}
	x.retries++
	return x.returned(atMs)
}

// afterLease is x as the expiry of its lease leaves it.
func (x message) afterLease() message { return x.retried(x.dueMs, x.leaseMaxRetries) }

// delivered is x under a lease.
func (x message) delivered(s *Settings, nowMs int64) message {
	x.state = StatePending
	x.moves++
	return x.renewed(s, nowMs)
}

// renewed is x with its lease counted from now.
func (x message) renewed(s *Settings, nowMs int64) message {
	x.dueMs = 0
	if s.LeaseTimeoutSeconds > 0 {
		x.dueMs = nowMs + int64(s.LeaseTimeoutSeconds)*1000
	}
	x.leaseMaxRetries = uint16(s.MaxRetries)
	return x
}
