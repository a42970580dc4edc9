package fsm_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/fsm/model"
)

// The generators draw from few and small values, so that commands meet: few
// queues and keys, windows and leases of seconds, retention of a minute.

var (
	queueNames = []string{"a", "b", "c:1"}
	keys       = []fsm.Fingerprint{fsm.FingerprintOf("k1"), fsm.FingerprintOf("k2"), fsm.FingerprintOf("k3")}
)

// oneOf draws one of the values; a value given twice comes twice as often.
func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

// seldom is true once in n times.
func seldom(t *rapid.T, label string, n int) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

// author draws commands that mean something in the state in which they are
// applied. It previews them on a copy of the model.
type author struct {
	preview *model.Model
	seen    []fsm.Token // tokens of earlier, mostly stale
	uids    []string    // of queues, living and gone
}

// batch draws a batch at nowMs.
func (a *author) batch(t *rapid.T, nowMs int64) fsm.Batch {
	b := fsm.Batch{NowMs: nowMs}
	n := rapid.IntRange(0, 8).Draw(t, "commands")
	for range n {
		c := a.command(t)
		a.remember(c, a.preview.Apply(fsm.Batch{NowMs: nowMs, Commands: []fsm.Command{c}})[0])
		b.Commands = append(b.Commands, c)
	}
	return b
}

func (a *author) remember(c fsm.Command, r fsm.Result) {
	for _, d := range r.Deliveries {
		a.seen = append(a.seen, fsm.Token{Sort: fsm.Lease, Queue: d.ID.Queue, Message: d.ID.Message, Moves: d.Moves})
	}
	if r.Code != fsm.CodeOK || r.ID == (fsm.MessageID{}) {
		return
	}
	sort := fsm.Handle
	if c.Op == fsm.OpReceive {
		sort = fsm.Lease
	}
	a.seen = append(a.seen, fsm.Token{Sort: sort, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves})
}

func (a *author) command(t *rapid.T) fsm.Command {
	c := fsm.Command{Spool: fsm.DefaultSpool}
	if seldom(t, "other spool", 60) {
		c.Spool = "other"
	}
	suspended := a.preview.Read(fsm.Query{Kind: fsm.QueryQueues, Spool: fsm.DefaultSpool, Limit: 1}).Code == fsm.CodeSpoolSuspended
	if suspended && oneOf(t, "resume", true, false) {
		c.Op = fsm.OpSetCaps
		return c
	}
	if seldom(t, "of channels", 4) {
		c.Op = a.channelOp(t)
		return a.channelCommand(t, c)
	}
	c.Op = a.op(t)
	switch c.Op {
	case fsm.OpInit:
		return fsm.Command{Op: fsm.OpInit, ClusterID: "another", Secret: fsm.Secret{9}}
	case fsm.OpSetCaps:
		c.Caps, c.Suspended = a.caps(t), seldom(t, "suspend", 10)
		return c
	case fsm.OpCreateQueue, fsm.OpUpdateQueue:
		c.Patch = patch(t)
	case fsm.OpDeleteQueue:
		c.Drain = oneOf(t, "drain", true, true, false)
		c.UID = a.uid(t)
	case fsm.OpSend, fsm.OpAckAndSend:
		c.Payload = oneOf(t, "payload", "", "x", "yy", "zzz")
		if oneOf(t, "keyed", true, true, false) {
			c.Keyed, c.Key = true, oneOf(t, "key", keys...)
		}
	}
	switch c.Op {
	case fsm.OpCreateQueue, fsm.OpUpdateQueue, fsm.OpDeleteQueue, fsm.OpSend, fsm.OpReceive, fsm.OpReceiveMany, fsm.OpAckAndSend:
		c.Queue = queueName(t)
	}
	if c.Op == fsm.OpReceiveMany {
		c.Count, c.MaxBytes = oneOf[uint32](t, "count", 1, 2, 3, 1000), oneOf[uint32](t, "max bytes", 0, 1, 3, 6, fsm.MaxPayloadBytes)
		if seldom(t, "odd limit", 20) {
			c.Count, c.MaxBytes = oneOf[uint32](t, "odd count", 0, 1001), oneOf[uint32](t, "odd bytes", 0, fsm.MaxPayloadBytes+1)
		}
	}
	switch c.Op {
	case fsm.OpSend, fsm.OpAckAndSend, fsm.OpRelease, fsm.OpRecover:
		c.DelaySeconds = delay(t)
	}
	switch c.Op {
	case fsm.OpAck, fsm.OpNack, fsm.OpRelease, fsm.OpFail, fsm.OpDiscard, fsm.OpRenew, fsm.OpRecover, fsm.OpAckAndSend:
		c.Token = a.token(t, c.Op)
	}
	return c
}

// op draws what to do. Where it needs a message in a state that none is in, it
// is mostly what leads there.
func (a *author) op(t *rapid.T) fsm.Op {
	op := oneOf(t, "op",
		fsm.OpSend, fsm.OpSend, fsm.OpSend, fsm.OpSend, fsm.OpSend,
		fsm.OpReceive, fsm.OpReceive, fsm.OpReceive, fsm.OpReceive,
		fsm.OpCreateQueue, fsm.OpCreateQueue, fsm.OpUpdateQueue, fsm.OpUpdateQueue, fsm.OpUpdateQueue, fsm.OpDeleteQueue,
		fsm.OpAck, fsm.OpNack, fsm.OpNack, fsm.OpNack, fsm.OpRelease, fsm.OpFail, fsm.OpDiscard, fsm.OpRenew, fsm.OpRenew,
		fsm.OpRecover, fsm.OpRecover, fsm.OpRecover, fsm.OpAckAndSend, fsm.OpAckAndSend, fsm.OpSetCaps, fsm.OpSetCaps, fsm.OpInit,
	)
	if seldom(t, "regardless", 6) {
		return op
	}
	sum := a.sum()
	if op == fsm.OpRecover && sum.Failed == 0 {
		op = fsm.OpNack
	}
	switch op {
	case fsm.OpAck, fsm.OpNack, fsm.OpRelease, fsm.OpFail, fsm.OpRenew, fsm.OpAckAndSend:
		if sum.Pending == 0 {
			op = fsm.OpReceive
		}
	}
	if op == fsm.OpReceive && oneOf(t, "many", true, false, false) {
		op = fsm.OpReceiveMany
	}
	if (op == fsm.OpReceive || op == fsm.OpReceiveMany) && sum.Visible == 0 {
		op = fsm.OpSend
	}
	return op
}

// sum are the spool's stats.
func (a *author) sum() fsm.Stats {
	return a.preview.Read(fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Limit: 1}).Sum
}

func queueName(t *rapid.T) string {
	if seldom(t, "odd name", 40) {
		return oneOf(t, "odd", "", "no spaces", "missing", "é")
	}
	return oneOf(t, "queue", "a", "a", "a", "a", "b", "b", "c:1")
}

func delay(t *rapid.T) uint32 {
	if seldom(t, "odd delay", 60) {
		return oneOf[uint32](t, "odd", fsm.MaxDelaySeconds, fsm.MaxDelaySeconds+1)
	}
	return oneOf[uint32](t, "delay", 0, 0, 0, 1, 2, 61)
}

// caps draws caps that are mostly off or just about reached.
func (a *author) caps(t *rapid.T) fsm.Caps {
	sum := a.sum()
	near := func(label string, used uint64) uint64 {
		return oneOf(t, label, 0, 0, used, used+1, used+2)
	}
	return fsm.Caps{
		MaxMessages:         near("maxMessages", sum.Total),
		MaxDataBytes:        near("maxDataBytes", sum.DataBytes),
		MaxDedupKeys:        near("maxDedupKeys", sum.DedupKeys),
		MaxQueues:           oneOf[uint64](t, "maxQueues", 0, 0, 1, 2),
		MaxRetentionSeconds: oneOf[uint32](t, "maxRetention", 0, 0, 5, 60, 61),
	}
}

func patch(t *rapid.T) fsm.Patch {
	p := fsm.Patch{Set: fsm.Field(rapid.IntRange(0, 31).Draw(t, "fields"))}
	set := func(f fsm.Field) bool { return p.Set&f != 0 }
	if set(fsm.FieldLeaseTimeout) {
		p.To.LeaseTimeoutSeconds = oneOf[uint32](t, "lease", 0, 1, 2, 5, 60, 60, 43_200)
	}
	if set(fsm.FieldMaxRetries) {
		p.To.MaxRetries = oneOf[uint32](t, "retries", 0, 0, 1, 1, 2, 1000)
	}
	if set(fsm.FieldDedupWindow) {
		p.To.DedupWindowSeconds = oneOf[uint32](t, "window", 0, 1, 3, 10, 120, 604_800)
	}
	if set(fsm.FieldRetention) {
		p.To.RetentionSeconds = oneOf[uint32](t, "retention", 60, 60, 60, 61, 120, 1_209_600)
	}
	if set(fsm.FieldRecvRateLimit) && oneOf(t, "limited", true, false) {
		p.To.RecvRateLimit = fsm.RateLimit{
			IntervalMicros: oneOf[uint64](t, "interval", 1, 1_000, 500_000, 1_500_001, 1_500_001, 3_600_000_000),
			Burst:          oneOf[uint64](t, "burst", 1, 1, 2, 3, 1_000_000),
		}
	}
	if seldom(t, "odd setting", 40) {
		oddSetting(t, &p.To)
	}
	return p
}

// oddSetting puts one setting beyond its bounds.
func oddSetting(t *rapid.T, s *fsm.Settings) {
	switch rapid.IntRange(0, 7).Draw(t, "odd") {
	case 0:
		s.LeaseTimeoutSeconds = 43_201
	case 1:
		s.MaxRetries = 1_001
	case 2:
		s.DedupWindowSeconds = 604_801
	case 3:
		s.RetentionSeconds = 59
	case 4:
		s.RetentionSeconds = 1_209_601
	case 5:
		s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1}
	case 6:
		s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 3_600_000_001, Burst: 1}
	case 7:
		s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1, Burst: 1_000_001}
	}
}

// uid draws what a delete takes: mostly none, else that of some queue.
func (a *author) uid(t *rapid.T) string {
	if len(a.uids) == 0 || oneOf(t, "any uid", true, true, false) {
		return ""
	}
	return oneOf(t, "uid", a.uids...)
}

// token draws a token for the command: mostly one that names a message as it
// is, of the sort and in the state that the command takes.
func (a *author) token(t *rapid.T, op fsm.Op) fsm.Token {
	var token fsm.Token
	switch how := oneOf(t, "token", "fitting", "fitting", "fitting", "any", "seen"); {
	case how == "seen" && len(a.seen) > 0:
		token = oneOf(t, "seen", a.seen...)
	default:
		token = a.living(t, op, how == "fitting")
	}
	if seldom(t, "altered", 12) {
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			token.Sort = oneOf(t, "sort", fsm.Lease, fsm.Handle, 0, 3)
		case 1:
			token.Moves += oneOf[uint32](t, "moves", 1, 2, ^uint32(0))
		case 2:
			token.Message += oneOf[uint64](t, "message", 1, ^uint64(0))
		case 3:
			token.Queue += oneOf[uint64](t, "queue", 1, ^uint64(0))
		}
	}
	return token
}

// living names a living message.
func (a *author) living(t *rapid.T, op fsm.Op, fitting bool) fsm.Token {
	sort, state := fsm.Lease, fsm.StatePending
	switch {
	case op == fsm.OpRecover:
		sort, state = fsm.Handle, fsm.StateFailed
	case op == fsm.OpDiscard && oneOf(t, "cancel", true, false):
		sort, state = fsm.Handle, fsm.AnyState
	}
	if !fitting {
		state = fsm.AnyState
	}
	var tokens []fsm.Token
	for _, name := range queueNames {
		query := fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: name, State: state, Limit: 1000}
		for _, item := range a.preview.Read(query).Messages {
			tokens = append(tokens, fsm.Token{Sort: sort, Queue: item.ID.Queue, Message: item.ID.Message, Moves: item.Moves})
		}
	}
	if len(tokens) == 0 {
		return fsm.Token{Sort: sort, Queue: 1, Message: 1, Moves: 1}
	}
	return oneOf(t, "living", tokens...)
}

// clock draws the next batch's time: mostly a little later, often at a time
// when something is due or a millisecond beside it, sometimes far off or back.
func clock(t *rapid.T, m *model.Model, nextDueMs int64) int64 {
	nowMs := m.NowMs()
	switch oneOf(t, "clock", "same", "same", "little", "little", "little", "soon", "soon", "soon", "soon", "due", "next", "far", "back") {
	case "same":
		return nowMs
	case "little":
		return nowMs + rapid.Int64Range(0, 3_000).Draw(t, "ms")
	case "soon":
		soon := dueTimes(m)
		return oneOf(t, "at", soon[:min(3, len(soon))]...) + oneOf[int64](t, "beside", 0, 0, -1, 1)
	case "due":
		return oneOf(t, "at", dueTimes(m)...) + oneOf[int64](t, "beside", 0, 0, -1, 1)
	case "next":
		return nextDueMs + oneOf[int64](t, "beside", 0, 0, -1, 1)
	case "far":
		return nowMs + oneOf[int64](t, "far", 10_000, 59_999, 60_000, 61_000, 700_000_000)
	default:
		return nowMs - oneOf[int64](t, "back", 1, 1_000, 1_000_000, nowMs+1)
	}
}

// dueTimes are log time and the times at which something happens by itself.
func dueTimes(m *model.Model) []int64 {
	times := []int64{m.NowMs()}
	for _, name := range queueNames {
		query := fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: name, Limit: 1000}
		for _, item := range m.Read(query).Messages {
			for _, ms := range []int64{item.VisibleAtMs, item.LeaseExpiresAtMs, item.ExpiresAtMs} {
				if ms > m.NowMs() {
					times = append(times, ms)
				}
			}
		}
	}
	for _, ms := range m.ClaimTimes() {
		if ms > m.NowMs() {
			times = append(times, ms)
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}
