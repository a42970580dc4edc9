package fsm

import "github.com/tidwall/btree"

// Bounds of a claim, inclusive.
const (
	MaxClaimLapseMs       = 86_400_000
	MaxClaimWindowSeconds = 604_800
)

// Owner names who holds a claim. Whoever comes again as the same owner knows its
// own claim.
type Owner [16]byte

// ClaimTotals count what has happened to a channel's claims. Each one that was
// claimed is open still, or has ended in one of the other three ways.
type ClaimTotals struct {
	Claimed  uint64
	Settled  uint64
	Released uint64
	Lapsed   uint64 // taken over by another owner, or over without a settle
}

// ClaimStats are a channel's claims as they are.
type ClaimStats struct {
	Open    uint64 // neither settled nor released, lapsed ones that nobody took included
	Settled uint64 // keys whose repeats are refused
	Totals  ClaimTotals
}

// channelClaim is an owner's claim of a key, or the memory that it was settled.
// It is a value: a change makes another.
type channelClaim struct {
	key          Fingerprint
	owner        Owner
	claimedAtMs  int64
	lapsesAtMs   int64 // from then on others may take it; 0 once it is settled
	windowEndsMs int64
	settled      bool
}

// endMs is when the claim is forgotten. One that has lapsed is kept for its
// window: until another takes the key, its owner may still settle.
func (x channelClaim) endMs() int64 { return max(x.lapsesAtMs, x.windowEndsMs) }

func (x channelClaim) digest() uint64 {
	h := digest(6).text(string(x.key[:])).text(string(x.owner[:])).
		word(uint64(x.claimedAtMs)).word(uint64(x.lapsesAtMs)).word(uint64(x.windowEndsMs))
	if x.settled {
		h = h.word(1)
	}
	return uint64(h)
}

// claimEnd orders claims by their ends.
type claimEnd struct {
	atMs int64
	key  Fingerprint
}

func lessClaimEnd(a, b claimEnd) bool {
	if a.atMs != b.atMs {
		return a.atMs < b.atMs
	}
	return lessKey(a.key, b.key)
}

// channelClaims are the claims of a channel. Their windows differ, and start
// anew at a settle, so that their ends need an order of their own.
type channelClaims struct {
	byKey   *btree.BTreeG[channelClaim]
	byEnd   *btree.BTreeG[claimEnd]
	open    uint64
	content uint64 // sum of the claims' digests
	totals  ClaimTotals
}

func newChannelClaims() channelClaims {
	return channelClaims{
		byKey: newTree(func(a, b channelClaim) bool { return lessKey(a.key, b.key) }),
		byEnd: newTree(lessClaimEnd),
	}
}

func (s *channelClaims) copy() channelClaims {
	c := *s
	c.byKey, c.byEnd = s.byKey.Copy(), s.byEnd.Copy()
	return c
}

func (s *channelClaims) stats() ClaimStats {
	return ClaimStats{Open: s.open, Settled: uint64(s.byKey.Len()) - s.open, Totals: s.totals}
}

func (s *channelClaims) firstEndMs() int64 {
	if first, ok := s.byEnd.Min(); ok {
		return first.atMs
	}
	return never
}

// admit says whether the command's owner may claim its key.
func (s *channelClaims) admit(c *Command, nowMs int64) Result {
	x, known := s.live(c.Key, nowMs)
	switch {
	case known && x.settled:
		return Result{Code: CodeDuplicate}
	case known && x.owner != c.Owner && nowMs < x.lapsesAtMs:
		return Result{Code: CodeClaimInFlight, RetryAfterMs: x.lapsesAtMs - nowMs}
	case known || s.byKey.Len() < int(c.MaxKeys):
		return Result{}
	}
	s.sweep(nowMs, never) // what is over fills no channel
	if s.byKey.Len() < int(c.MaxKeys) {
		return Result{}
	}
	return Result{Code: CodeChannelFull, Max: uint64(c.MaxKeys)}
}

// take puts an admitted claim in place of one that its owner had, or that
// another had and let lapse.
func (s *channelClaims) take(x channelClaim) {
	was, replaced := s.byKey.Get(x)
	if replaced {
		s.remove(was)
	}
	if replaced && was.owner != x.owner {
		s.totals.Lapsed++
	}
	if !replaced || was.owner != x.owner {
		s.totals.Claimed++
	}
	s.insert(x)
}

func (s *channelClaims) settle(x channelClaim, windowEndsMs int64) {
	s.remove(x)
	x.settled, x.lapsesAtMs, x.windowEndsMs = true, 0, windowEndsMs
	s.insert(x)
	s.totals.Settled++
}

// heldBy returns the claim of the command's key, if it is its owner's.
func (s *channelClaims) heldBy(c *Command, nowMs int64) (channelClaim, bool) {
	x, known := s.live(c.Key, nowMs)
	return x, known && x.owner == c.Owner
}

// live returns the claim of a key as it is at nowMs, after forgetting one that
// is over.
func (s *channelClaims) live(key Fingerprint, nowMs int64) (channelClaim, bool) {
	x, ok := s.byKey.Get(channelClaim{key: key})
	if ok && x.endMs() <= nowMs {
		s.forget(x)
		return channelClaim{}, false
	}
	return x, ok
}

// forget does what the end of a claim does.
func (s *channelClaims) forget(x channelClaim) {
	s.remove(x)
	if !x.settled {
		s.totals.Lapsed++
	}
}

// sweep forgets at most limit claims that are over, and returns how many it did.
func (s *channelClaims) sweep(nowMs int64, limit int) int {
	done := 0
	for ; done < limit; done++ {
		first, ok := s.byEnd.Min()
		if !ok || first.atMs > nowMs {
			break
		}
		x, _ := s.byKey.Get(channelClaim{key: first.key})
		s.forget(x)
	}
	return done
}

// Every change of a claim goes through insert and remove, which keep the order
// of ends, the counts and the content digest.

func (s *channelClaims) insert(x channelClaim) {
	s.byKey.Set(x)
	s.byEnd.Set(claimEnd{x.endMs(), x.key})
	s.content += x.digest()
	if !x.settled {
		s.open++
	}
}

func (s *channelClaims) remove(x channelClaim) {
	s.byKey.Delete(x)
	s.byEnd.Delete(claimEnd{x.endMs(), x.key})
	s.content -= x.digest()
	if !x.settled {
		s.open--
	}
}
