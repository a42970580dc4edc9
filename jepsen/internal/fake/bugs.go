package fake

import "slices"

// Bug is a mistake that is made on purpose.
type Bug string

// The bugs that can be planted.
const (
	ForgetKeys       Bug = "forget-keys"         // a failover forgets every remembered key
	StuckClaim       Bug = "stuck-claim"         // a proposal that failed leaves its key in flight
	DoubleLease      Bug = "double-lease"        // a leased message is granted again
	AckWithoutAppend Bug = "ack-without-append"  // ack-and-send acks, and appends nothing
	AppendWithoutAck Bug = "append-without-ack"  // ack-and-send appends, and acks nothing
	EarlyAnswer      Bug = "early-answer"        // answered before the flush: a failover loses the newest sends
	RefuseCommitted  Bug = "refuse-committed"    // 503 after the commit
	SkewedExpiry     Bug = "skewed-expiry"       // one node expires leases that the others hold
	HalfWindow       Bug = "half-window"         // a changed window keeps half of the keys
	DoubleAppend     Bug = "double-append"       // a forwarded send is sent on twice
	AckedReturns     Bug = "acked-returns"       // a failover brings acked messages back
	StaleReads       Bug = "stale-reads"         // a follower answers default reads from old state
	WrongOriginal    Bug = "wrong-original"      // a duplicate is answered with another message's id
	CountedTwice     Bug = "counted-twice"       // an expired lease counts two retries
	EarlyWindow      Bug = "early-window"        // keys are freed at half of their window
	KeyDiesWithAck   Bug = "key-dies-with-ack"   // an acked message takes its key along
	ExpiredAck       Bug = "expired-ack"         // an expired lease still acks
	DelayLost        Bug = "delay-lost"          // a delayed send is visible at once
	GhostOfOldQueue  Bug = "ghost-of-old-queue"  // a queue made again gets messages of the old one
	StatsDrift       Bug = "stats-drift"         // a release is counted as an added message
	FailedDelivered  Bug = "failed-delivered"    // a failed message is delivered as if it were visible
	EarlyExpiry      Bug = "early-expiry"        // leases end at half of their timeout
	DuplicateWord    Bug = "duplicate-word-only" // a keyed send that never landed is called a duplicate
)

// Bugs lists every bug, sorted by name.
func Bugs() []Bug {
	all := []Bug{
		ForgetKeys, StuckClaim, DoubleLease, AckWithoutAppend, AppendWithoutAck, EarlyAnswer, RefuseCommitted,
		SkewedExpiry, HalfWindow, DoubleAppend, AckedReturns, StaleReads, WrongOriginal, CountedTwice, EarlyWindow,
		KeyDiesWithAck, ExpiredAck, DelayLost, GhostOfOldQueue, StatsDrift, FailedDelivered, EarlyExpiry, DuplicateWord,
	}
	slices.Sort(all)
	return all
}
