package fsm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// rig drives one machine as a leader would.
type rig struct {
	t     *testing.T
	m     *fsm.Machine
	index uint64
	nowMs int64
}

const startMs = 1_700_000_000_000

// newRig starts a machine whose sweep is off, so that every rule has to stand
// without it.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, m: fsm.New(), nowMs: startMs}
	fsm.SetSweepLimit(r.m, -1<<30)
	r.ok(fsm.Command{Op: fsm.OpInit, ClusterID: "c", Secret: fsm.Secret{7}})
	return r
}

func (r *rig) do(c fsm.Command) fsm.Result {
	r.t.Helper()
	if c.Spool == "" && c.Op != fsm.OpInit {
		c.Spool = fsm.DefaultSpool
	}
	r.index++
	return r.m.Apply(r.index, fsm.Batch{NowMs: r.nowMs, Commands: []fsm.Command{c}})[0]
}

func (r *rig) want(code fsm.Code, c fsm.Command) fsm.Result {
	r.t.Helper()
	got := r.do(c)
	if got.Code != code {
		r.t.Fatalf("command %d: code %d, want %d (%+v)", c.Op, got.Code, code, got)
	}
	return got
}

func (r *rig) ok(c fsm.Command) fsm.Result { r.t.Helper(); return r.want(fsm.CodeOK, c) }

func (r *rig) create(name string, change func(*fsm.Settings)) {
	r.t.Helper()
	s := fsm.DefaultSettings()
	if change != nil {
		change(&s)
	}
	r.ok(fsm.Command{Op: fsm.OpCreateQueue, Queue: name, Patch: fsm.FullPatch(s)})
}

func (r *rig) patch(name string, set fsm.Field, to fsm.Settings) {
	r.t.Helper()
	r.ok(fsm.Command{Op: fsm.OpUpdateQueue, Queue: name, Patch: fsm.Patch{Set: set, To: to}})
}

func send(queue, payload string) fsm.Command {
	return fsm.Command{Op: fsm.OpSend, Queue: queue, Payload: payload}
}

func keyedSend(queue, key string) fsm.Command {
	return fsm.Command{Op: fsm.OpSend, Queue: queue, Keyed: true, Key: fsm.FingerprintOf(key), Payload: key}
}

func recv(queue string) fsm.Command { return fsm.Command{Op: fsm.OpReceive, Queue: queue} }

func withLease(op fsm.Op, got fsm.Result) fsm.Command {
	return fsm.Command{Op: op, Token: fsm.Token{Sort: fsm.Lease, Queue: got.ID.Queue, Message: got.ID.Message, Moves: got.Moves}}
}

func withHandle(op fsm.Op, got fsm.Result) fsm.Command {
	c := withLease(op, got)
	c.Token.Sort = fsm.Handle
	return c
}

func (r *rig) stats(queue string) fsm.Stats {
	r.t.Helper()
	a := r.m.ImageAt(r.nowMs).Read(fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Names: []string{queue}, Limit: 1})
	if len(a.Queues) != 1 {
		r.t.Fatalf("no stats for %s: %+v", queue, a)
	}
	return a.Queues[0].Stats
}

func (r *rig) states(queue string) string {
	r.t.Helper()
	a := r.m.ImageAt(r.nowMs).Read(fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: queue, Limit: 100})
	s := ""
	for _, x := range a.Messages {
		s += fmt.Sprintf("%d:%s/%d ", x.ID.Message, [...]string{"", "delayed", "visible", "pending", "failed"}[x.State], x.Retries)
	}
	return s
}

func TestAKeyIsFreeExactlyAtTheEndOfItsWindow(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	first := r.ok(keyedSend("q", "k"))
	r.nowMs += 9_999
	if hit := r.want(fsm.CodeDuplicate, keyedSend("q", "k")); hit.ID != first.ID {
		t.Fatalf("hit names %v, original is %v", hit.ID, first.ID)
	}
	r.nowMs++ // the hit did not extend it
	second := r.ok(keyedSend("q", "k"))
	if second.ID == first.ID {
		t.Fatal("an id was used twice")
	}
	r.nowMs += 9_999
	if hit := r.want(fsm.CodeDuplicate, keyedSend("q", "k")); hit.ID != second.ID {
		t.Fatalf("hit names %v, holder is %v", hit.ID, second.ID)
	}
}

func TestASweepAfterANewClaimLeavesIt(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	for _, key := range []string{"a", "k", "b"} {
		r.ok(keyedSend("q", key))
	}
	r.nowMs += 10_000
	holder := r.ok(keyedSend("q", "k")) // claimed again before any sweep
	fsm.SetSweepLimit(r.m, 1000)
	if hit := r.want(fsm.CodeDuplicate, keyedSend("q", "k")); hit.ID != holder.ID {
		t.Fatalf("hit names %v, holder is %v", hit.ID, holder.ID)
	}
	if n := r.stats("q").DedupKeys; n != 1 {
		t.Fatalf("%d keys remembered, want 1", n)
	}
}

func TestAKeyOutlivesItsMessage(t *testing.T) {
	end := map[string]func(r *rig, sent fsm.Result){
		"acked":     func(r *rig, _ fsm.Result) { r.ok(withLease(fsm.OpAck, r.ok(recv("q")))) },
		"failed":    func(r *rig, _ fsm.Result) { r.ok(withLease(fsm.OpFail, r.ok(recv("q")))) },
		"cancelled": func(r *rig, sent fsm.Result) { r.ok(withHandle(fsm.OpDiscard, sent)) },
		"expired":   func(r *rig, _ fsm.Result) { r.nowMs += 60_000 },
	}
	for name, how := range end {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds, s.RetentionSeconds = 3600, 60 })
			sent := r.ok(keyedSend("q", "k"))
			how(r, sent)
			if hit := r.want(fsm.CodeDuplicate, keyedSend("q", "k")); hit.ID != sent.ID {
				t.Fatalf("hit names %v, original is %v", hit.ID, sent.ID)
			}
		})
	}
}

func TestAChangedWindowForgetsAllKeys(t *testing.T) {
	for _, seconds := range []uint32{5, 20, 0} {
		r := newRig(t)
		r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
		r.ok(keyedSend("q", "k"))
		r.patch("q", fsm.FieldDedupWindow, fsm.Settings{DedupWindowSeconds: 10})
		r.want(fsm.CodeDuplicate, keyedSend("q", "k")) // the same value changes nothing
		r.patch("q", fsm.FieldDedupWindow, fsm.Settings{DedupWindowSeconds: seconds})
		if seconds == 0 {
			r.want(fsm.CodeDedupDisabled, keyedSend("q", "k"))
		} else {
			r.ok(keyedSend("q", "k"))
		}
	}
}

func TestAHitIsAHitWhereTheSpoolIsFull(t *testing.T) {
	for name, caps := range map[string]fsm.Caps{
		"messages": {MaxMessages: 1}, "dataBytes": {MaxDataBytes: 1}, "dedupKeys": {MaxDedupKeys: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
			r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: caps})
			r.ok(keyedSend("q", "k"))
			full := r.want(fsm.CodeSpoolFull, keyedSend("q", "l"))
			if full.Max != 1 || full.Cap == 0 {
				t.Fatalf("refused with %+v", full)
			}
			r.want(fsm.CodeDuplicate, keyedSend("q", "k"))
			if n := r.stats("q").Total; n != 1 {
				t.Fatalf("%d messages, want 1", n)
			}
		})
	}
}

func TestWhatIsOverDoesNotFillASpool(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds, s.RetentionSeconds = 10, 60 })
	r.create("other", nil)
	r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: fsm.Caps{MaxMessages: 2, MaxDataBytes: 2, MaxDedupKeys: 1}})
	r.ok(keyedSend("q", "a"))
	r.ok(send("other", "b"))
	r.want(fsm.CodeSpoolFull, send("other", ""))
	r.nowMs += 60_000
	r.ok(send("other", "c"))
	r.want(fsm.CodeSpoolFull, send("other", ""))
}

func TestLifeOfALease(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.LeaseTimeoutSeconds, s.MaxRetries = 10, 1 })
	r.ok(send("q", "x"))
	first := r.ok(recv("q"))
	if first.LeaseExpiresAtMs != r.nowMs+10_000 || first.Retries != 0 {
		t.Fatalf("delivered as %+v", first)
	}
	r.want(fsm.CodeEmpty, recv("q"))
	r.nowMs += 5_000
	if renewed := r.ok(withLease(fsm.OpRenew, first)); renewed.LeaseExpiresAtMs != r.nowMs+10_000 {
		t.Fatalf("renewed until %d", renewed.LeaseExpiresAtMs)
	}
	r.nowMs += 10_000
	r.want(fsm.CodeStaleToken, withLease(fsm.OpAck, first))
	second := r.ok(recv("q"))
	if second.Retries != 1 {
		t.Fatalf("an expired lease counts a retry: %+v", second)
	}
	r.ok(withLease(fsm.OpNack, second)) // retries equal maxRetries: fails, count unchanged
	if s := r.states("q"); s != "1:failed/1 " {
		t.Fatalf("states %q", s)
	}
	r.want(fsm.CodeStaleToken, withLease(fsm.OpAck, second))
	failed := fsm.Result{ID: second.ID, Moves: second.Moves + 1}
	r.ok(withHandle(fsm.OpRecover, failed))
	third := r.ok(recv("q"))
	if third.Retries != 0 {
		t.Fatalf("recovery did not reset the retries: %+v", third)
	}
	r.ok(withLease(fsm.OpAck, third))
	got, want := r.stats("q").Totals, fsm.Totals{Added: 1, Acked: 1, Nacked: 1, Failed: 1}
	if got != want {
		t.Fatalf("totals %+v, want %+v", got, want)
	}
}

func TestTheRetryBoundOfALease(t *testing.T) {
	lapse := func(renew bool) string {
		r := newRig(t)
		r.create("q", func(s *fsm.Settings) { s.LeaseTimeoutSeconds, s.MaxRetries = 10, 1 })
		r.ok(send("q", "x"))
		lease := r.ok(recv("q"))
		r.patch("q", fsm.FieldMaxRetries, fsm.Settings{MaxRetries: 0})
		if renew {
			r.ok(withLease(fsm.OpRenew, lease))
		}
		r.nowMs += 10_000
		return r.states("q")
	}
	if s := lapse(false); s != "1:visible/1 " {
		t.Errorf("the bound of the delivery holds until the next delivery or renew: %q", s)
	}
	if s := lapse(true); s != "1:failed/0 " {
		t.Errorf("a renew takes the new bound: %q", s)
	}
}

func TestHandlesGoStaleWithEveryMove(t *testing.T) {
	moves := map[string]func(r *rig){
		"delivered": func(r *rig) { r.ok(recv("q")) },
		"acked":     func(r *rig) { r.ok(withLease(fsm.OpAck, r.ok(recv("q")))) },
		"released":  func(r *rig) { r.ok(withLease(fsm.OpRelease, r.ok(recv("q")))) },
		"lapsed":    func(r *rig) { r.ok(recv("q")); r.nowMs += 30_000 },
		"expired":   func(r *rig) { r.nowMs += 345_600_000 },
		"removed":   func(r *rig) { r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q"}) },
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create("q", nil)
			sent := r.ok(send("q", "x"))
			move(r)
			r.want(fsm.CodeStaleToken, withHandle(fsm.OpDiscard, sent))
		})
	}
	t.Run("a delay that runs out is no move", func(t *testing.T) {
		r := newRig(t)
		r.create("q", nil)
		c := send("q", "x")
		c.DelaySeconds = 5
		sent := r.ok(c)
		r.nowMs += 5_000
		r.ok(withHandle(fsm.OpDiscard, sent))
	})
}

func TestAckAndSendDoesBothOrNeither(t *testing.T) {
	r := newRig(t)
	r.create("in", nil)
	r.create("out", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	r.ok(send("in", "x"))
	holder := r.ok(keyedSend("out", "taken"))
	lease := r.ok(recv("in"))
	chain := func(queue, key string) fsm.Command {
		c := withLease(fsm.OpAckAndSend, lease)
		c.Queue, c.Keyed, c.Key, c.Payload = queue, key != "", fsm.FingerprintOf(key), "y"
		return c
	}
	r.want(fsm.CodeQueueNotFound, chain("nowhere", ""))
	if claimed := r.want(fsm.CodeDedupClaimed, chain("out", "taken")); claimed.ID != holder.ID {
		t.Fatalf("claimed by %v, holder is %v", claimed.ID, holder.ID)
	}
	r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: fsm.Caps{MaxDedupKeys: 1}})
	r.want(fsm.CodeSpoolFull, chain("out", "free"))
	r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: fsm.Caps{MaxDataBytes: 5}})
	r.want(fsm.CodeSpoolFull, chain("out", "free"))                                       // "x" goes and "y" comes, but "taken" and "x" are 6 bytes
	r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: fsm.Caps{MaxMessages: 2, MaxDataBytes: 6}}) // the ack makes room for the send
	if s := r.states("in"); s != "1:pending/0 " {
		t.Fatalf("refusals moved the message: %q", s)
	}
	r.ok(chain("out", "free"))
	r.want(fsm.CodeStaleToken, chain("out", "free")) // a retry after the commit appends nothing
	if in, out := r.states("in"), r.states("out"); in != "" || out != "1:visible/0 2:visible/0 " {
		t.Fatalf("in %q, out %q", in, out)
	}
}

func TestRemoval(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	r.ok(keyedSend("q", "k"))
	lease := r.ok(recv("q"))
	r.want(fsm.CodeQueueReplaced, fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q", UID: "another"})
	r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q", Drain: true})
	r.want(fsm.CodeQueueDeleting, send("q", "x"))
	r.want(fsm.CodeQueueDeleting, fsm.Command{Op: fsm.OpCreateQueue, Queue: "q"})
	r.ok(withLease(fsm.OpAck, lease))
	r.want(fsm.CodeQueueNotFound, recv("q"))
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	if again := r.ok(keyedSend("q", "k")); again.ID != (fsm.MessageID{Queue: 2, Message: 1}) {
		t.Fatalf("a queue made again answered %v", again.ID)
	}
	r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q"})
	r.want(fsm.CodeQueueNotFound, send("q", "x"))
}

func TestADrainingQueueGoesWhenItsLastMessageExpires(t *testing.T) {
	r := newRig(t)
	r.create("q", nil)
	r.ok(send("q", "x"))
	r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q", Drain: true})
	r.nowMs += 345_600_000
	r.create("q", nil)
}

func TestDeliveryLimit(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1_000_000, Burst: 2} })
	r.want(fsm.CodeEmpty, recv("q")) // takes no token
	for range 4 {
		r.ok(send("q", "x"))
	}
	r.ok(recv("q"))
	r.ok(recv("q"))
	if limited := r.want(fsm.CodeRateLimited, recv("q")); limited.RetryAfterMs != 1000 {
		t.Fatalf("retry after %d ms", limited.RetryAfterMs)
	}
	r.nowMs += 999
	r.want(fsm.CodeRateLimited, recv("q"))
	r.nowMs++
	r.ok(recv("q"))
	r.want(fsm.CodeRateLimited, recv("q"))
	r.patch("q", fsm.FieldRecvRateLimit, fsm.Settings{})
	r.ok(recv("q"))
}

func TestReceiveMany(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1_000_000, Burst: 6} })
	many := func(count, maxBytes uint32) fsm.Command {
		return fsm.Command{Op: fsm.OpReceiveMany, Queue: "q", Count: count, MaxBytes: maxBytes}
	}
	payloads := func(ds []fsm.Delivery) (all []string) {
		for _, d := range ds {
			all = append(all, d.Payload)
		}
		return all
	}
	r.want(fsm.CodeEmpty, many(10, 100))
	for _, payload := range []string{"large", "a", "b", "", "fits", "too much", "c", "d"} {
		r.ok(send("q", payload))
	}
	for _, step := range []struct {
		count, maxBytes uint32
		want            []string
	}{
		{3, 0, []string{"large"}}, // the first goes whatever its size
		{2, 2, []string{"a", "b"}},
		{9, 4, []string{"", "fits"}},
		{9, 100, []string{"too much"}}, // there are no more tokens
	} {
		got := r.ok(many(step.count, step.maxBytes)).Deliveries
		if !slices.Equal(payloads(got), step.want) {
			t.Errorf("received %q, want %q", payloads(got), step.want)
		}
		for _, d := range got {
			r.ok(fsm.Command{Op: fsm.OpAck, Token: fsm.Token{Sort: fsm.Lease, Queue: d.ID.Queue, Message: d.ID.Message, Moves: d.Moves}})
		}
	}
	if limited := r.want(fsm.CodeRateLimited, many(9, 100)); limited.RetryAfterMs != 1000 {
		t.Errorf("retry after %d ms", limited.RetryAfterMs)
	}
	r.nowMs += 10_000
	if got := payloads(r.ok(many(9, 100)).Deliveries); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("received %q", got)
	}
	r.want(fsm.CodeInvalidCommand, many(0, 100))
	r.want(fsm.CodeInvalidCommand, many(fsm.MaxReceiveCount+1, 100))
}

func TestOldestVisibleFirst(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.LeaseTimeoutSeconds = 2 })
	late := send("q", "delayed")
	late.DelaySeconds = 3
	r.ok(late)
	r.ok(send("q", "leased"))
	r.ok(recv("q")) // ends at 2 s
	r.nowMs += 1_000
	r.ok(send("q", "sent"))
	r.nowMs += 9_000
	var got []string
	for range 3 {
		got = append(got, r.ok(recv("q")).Payload)
	}
	if want := []string{"sent", "leased", "delayed"}; !slices.Equal(got, want) {
		t.Fatalf("received %v, want %v", got, want)
	}
}

func TestLogTimeNeverGoesBack(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.LeaseTimeoutSeconds = 10 })
	r.ok(send("q", "x"))
	lease := r.ok(recv("q"))
	r.nowMs -= 3_600_000
	if renewed := r.ok(withLease(fsm.OpRenew, lease)); renewed.LeaseExpiresAtMs != startMs+10_000 {
		t.Fatalf("renewed until %d", renewed.LeaseExpiresAtMs)
	}
}

func TestAnImageStaysAsItWas(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds = 10 })
	for i := range 1000 {
		r.ok(keyedSend("q", fmt.Sprint(i)))
	}
	image := r.m.Image()
	before, wantHash := image.Header(), r.m.Hash()
	for range 1000 {
		r.ok(withLease(fsm.OpAck, r.ok(recv("q"))))
	}
	r.nowMs += 10_000
	r.ok(keyedSend("q", "new"))
	r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q"})
	b := fsm.NewBuilder(before)
	fill(t, b, image)
	m, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if m.Hash() != wantHash {
		t.Fatal("the image changed after it was taken")
	}
}

// fill adds an image's records to a builder.
func fill(t *testing.T, b *fsm.Builder, image *fsm.Image) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for s := range image.Spools() {
		check(b.AddSpool(s))
	}
	for q := range image.Queues() {
		check(b.AddQueue(q.Record()))
		for x := range q.Messages() {
			check(b.AddMessage(x))
		}
		for c := range q.Claims() {
			check(b.AddClaim(c))
		}
	}
	for ch := range image.Channels() {
		check(b.AddChannel(ch.Record()))
		for c := range ch.Claims() {
			check(b.AddChannelClaim(c))
		}
	}
	for d := range image.Connectors() {
		check(b.AddConnector(d))
	}
}
