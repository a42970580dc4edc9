package channel

import (
	"sync"
	"time"
)

// limiter is a token bucket as a generic cell rate: fullAt is when it is full
// again.
type limiter struct {
	every time.Duration
	burst int

	mu     sync.Mutex
	fullAt time.Time
}

func newLimiter(r *RateLimit) *limiter {
	if r == nil {
		return nil
	}
	return &limiter{every: time.Second / time.Duration(r.PerSecond), burst: r.Burst}
}

// take takes a token, or says how long until there is one.
func (l *limiter) take(now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.fullAt
	if next.Before(now) {
		next = now
	}
	next = next.Add(l.every)
	if wait := next.Sub(now) - l.every*time.Duration(l.burst); wait > 0 {
		return wait
	}
	l.fullAt = next
	return 0
}

// slots are how many deliveries may be processed at once. nil: any number.
type slots chan struct{}

func newSlots(n int) slots {
	if n == 0 {
		return nil
	}
	return make(slots, n)
}

func (s slots) take() bool {
	if s == nil {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() {
	if s != nil {
		<-s
	}
}
