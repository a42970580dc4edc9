package channel

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// MaxKeys is how many keys a channel may remember.
const MaxKeys = 1_000_000

// errFull says that there is no room for another key, which a store can't help.
var errFull = fmt.Errorf("the channel remembers %d keys, which is as many as it may", MaxKeys)

// MemoryStore keeps claims in the process. It forgets them with it, so that it is for single
// nodes only.
type MemoryStore struct {
	now func() time.Time

	mu       sync.Mutex
	channels map[string]map[memoryKey]memoryClaim
}

type memoryKey [16]byte

type memoryClaim struct {
	owner      [16]byte
	lapses     time.Time
	windowEnds time.Time
	settled    bool
}

// over reports whether nothing is known of the claim any more.
func (c memoryClaim) over(now time.Time) bool {
	return !now.Before(c.windowEnds) && (c.settled || !now.Before(c.lapses))
}

// NewMemoryStore returns an empty store with that clock.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now, channels: map[string]map[memoryKey]memoryClaim{}}
}

// Claim implements [Store].
func (s *MemoryStore) Claim(_ context.Context, c Claim, t Terms) (Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	claims := s.channels[c.Channel]
	if claims == nil {
		claims = map[memoryKey]memoryClaim{}
		s.channels[c.Channel] = claims
	}
	was, known := s.live(c, now)
	switch {
	case known && was.settled:
		return Decision{Verdict: Duplicate}, nil
	case known && was.owner != c.Owner && now.Before(was.lapses):
		return Decision{Verdict: InFlight, RetryAfter: was.lapses.Sub(now)}, nil
	case !known && !room(claims, now):
		return Decision{}, errFull
	}
	claims[memoryKey(c.Key)] = memoryClaim{owner: c.Owner, lapses: now.Add(t.Lapse), windowEnds: now.Add(t.Window)}
	return Decision{Verdict: Claimed}, nil
}

// room makes room for a claim by forgetting what is over.
func room(claims map[memoryKey]memoryClaim, now time.Time) bool {
	if len(claims) >= MaxKeys {
		for key, c := range claims {
			if c.over(now) {
				delete(claims, key)
			}
		}
	}
	return len(claims) < MaxKeys
}

// Settle implements [Store].
func (s *MemoryStore) Settle(_ context.Context, c Claim, window time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	was, known := s.live(c, now)
	if !known || was.owner != c.Owner {
		return ErrClaimLost
	}
	if !was.settled {
		was.settled, was.windowEnds = true, now.Add(window)
		s.channels[c.Channel][memoryKey(c.Key)] = was
	}
	return nil
}

// Release implements [Store].
func (s *MemoryStore) Release(_ context.Context, c Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.live(c, s.now())
	if !known || was.owner != c.Owner || was.settled {
		return ErrClaimLost
	}
	delete(s.channels[c.Channel], memoryKey(c.Key))
	return nil
}

// live returns a claim of which something is still known.
func (s *MemoryStore) live(c Claim, now time.Time) (memoryClaim, bool) {
	was, ok := s.channels[c.Channel][memoryKey(c.Key)]
	return was, ok && !was.over(now)
}
