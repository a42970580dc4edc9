package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

const (
	lapseMs  = 5_000
	windowMs = 60_000
)

var alice, bob = fsm.Owner{1}, fsm.Owner{2}

func put(name, text string) fsm.Command {
	return fsm.Command{Op: fsm.OpPutDocument, Kind: fsm.ChannelDocument, Name: name, Payload: text}
}

// newChannelRig has a channel "in", and a machine that never sweeps.
func newChannelRig(t *testing.T) *rig {
	r := newRig(t)
	r.ok(put("in", "{}"))
	return r
}

// by is a command of the owner's for the key "k".
func by(owner fsm.Owner, op fsm.Op) fsm.Command {
	return fsm.Command{
		Op: op, Name: "in", Key: fsm.FingerprintOf("k"), Owner: owner, WindowSeconds: windowMs / 1000, LapseMs: lapseMs, MaxKeys: 100,
		Queue: "q", Payload: "p",
	}
}

func (r *rig) channel(name string) fsm.DocumentInfo {
	r.t.Helper()
	for _, d := range r.m.ImageAt(r.nowMs).Read(fsm.Query{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 1000}).Documents {
		if d.Name == name {
			return d
		}
	}
	r.t.Fatalf("no channel %q", name)
	return fsm.DocumentInfo{}
}

func TestAClaimIsInFlightUntilItLapses(t *testing.T) {
	r := newChannelRig(t)
	if got := r.ok(by(alice, fsm.OpClaim)); got.LeaseExpiresAtMs != r.nowMs+lapseMs {
		t.Errorf("lapses at %d, want %d", got.LeaseExpiresAtMs, r.nowMs+lapseMs)
	}
	r.nowMs += lapseMs - 1
	if got := r.want(fsm.CodeClaimInFlight, by(bob, fsm.OpClaim)); got.RetryAfterMs != 1 {
		t.Errorf("retry after %d ms, want 1", got.RetryAfterMs)
	}
	r.nowMs++
	r.ok(by(bob, fsm.OpClaim))
	r.want(fsm.CodeClaimInFlight, by(alice, fsm.OpClaim))
}

func TestAnOwnerKnowsItsOwnClaimAndItsTimeStartsAnew(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.nowMs += lapseMs - 1
	r.ok(by(alice, fsm.OpClaim))
	r.nowMs += lapseMs - 1
	r.want(fsm.CodeClaimInFlight, by(bob, fsm.OpClaim))
	if got := r.channel("in").Claims; got != (fsm.ClaimStats{Open: 1, Totals: fsm.ClaimTotals{Claimed: 1}}) {
		t.Errorf("stats %+v", got)
	}
}

func TestASettledKeyIsADuplicateForEverybodyUntilItsWindowEnds(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.nowMs += 1_000
	r.ok(by(alice, fsm.OpSettleClaim))
	r.nowMs += windowMs - 1 // beyond a window from the claim
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
	r.want(fsm.CodeDuplicate, by(alice, fsm.OpClaim))
	r.nowMs++
	r.ok(by(bob, fsm.OpClaim))
}

func TestASettleThatIsRepeatedDoesNotProlongTheWindow(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.ok(by(alice, fsm.OpSettleClaim))
	r.nowMs += windowMs - 1
	r.ok(by(alice, fsm.OpSettleClaim))
	r.nowMs++
	r.ok(by(bob, fsm.OpClaim))
}

func TestAReleasedKeyIsFree(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.ok(by(alice, fsm.OpReleaseClaim))
	r.ok(by(bob, fsm.OpClaim))
}

// TestAnOwnerThatLostItsClaimChangesNothing: whatever came in between, a late
// settle or release leaves everything as it is.
func TestAnOwnerThatLostItsClaimChangesNothing(t *testing.T) {
	taken := func(r *rig) {
		r.nowMs += lapseMs
		r.ok(by(bob, fsm.OpClaim))
	}
	for name, lose := range map[string]func(*rig){
		"taken over": taken,
		"taken over and settled": func(r *rig) {
			taken(r)
			r.ok(by(bob, fsm.OpSettleClaim))
		},
		"released":           func(r *rig) { r.ok(by(alice, fsm.OpReleaseClaim)) },
		"window over":        func(r *rig) { r.nowMs += windowMs },
		"channel made again": func(r *rig) { r.ok(remove("in")); r.ok(put("in", "")) },
	} {
		for _, op := range []fsm.Op{fsm.OpSettleClaim, fsm.OpReleaseClaim} {
			t.Run(fmt.Sprintf("%s, command %d", name, op), func(t *testing.T) {
				r := newChannelRig(t)
				r.ok(by(alice, fsm.OpClaim))
				lose(r)
				before := r.channel("in").Claims
				r.want(fsm.CodeClaimLost, by(alice, op))
				if after := r.channel("in").Claims; after != before {
					t.Errorf("%+v became %+v", before, after)
				}
			})
		}
	}
}

func remove(name string) fsm.Command {
	return fsm.Command{Op: fsm.OpDeleteDocument, Kind: fsm.ChannelDocument, Name: name}
}

func TestALapsedClaimThatNobodyTookCanBeSettledWithinItsWindow(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.nowMs += windowMs - 1
	r.ok(by(alice, fsm.OpSettleClaim))
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
}

func TestARunLongerThanTheWindowKeepsItsClaim(t *testing.T) {
	r := newChannelRig(t)
	claim := by(alice, fsm.OpClaim)
	claim.WindowSeconds = 1
	r.ok(claim)
	r.nowMs += lapseMs - 1
	r.want(fsm.CodeClaimInFlight, by(bob, fsm.OpClaim))
	r.ok(by(alice, fsm.OpSettleClaim))
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
}

func TestASettledKeyIsNotReleased(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.ok(by(alice, fsm.OpSettleClaim))
	r.want(fsm.CodeClaimLost, by(alice, fsm.OpReleaseClaim))
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
}

func TestKeysAreScopedByChannel(t *testing.T) {
	r := newChannelRig(t)
	r.ok(put("other", "{}"))
	r.ok(by(alice, fsm.OpClaim))
	other := by(bob, fsm.OpClaim)
	other.Name = "other"
	r.ok(other)
}

func TestClaimAppendAndSettleAreOneCommand(t *testing.T) {
	r := newChannelRig(t)
	r.create("q", nil)
	sent := r.ok(by(alice, fsm.OpClaimAndSend))
	if sent.ID != (fsm.MessageID{Queue: 1, Message: 1}) {
		t.Errorf("sent as %+v", sent.ID)
	}
	r.want(fsm.CodeDuplicate, by(alice, fsm.OpClaimAndSend))
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
	if n := r.stats("q").Total; n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	want := fsm.ClaimStats{Settled: 1, Totals: fsm.ClaimTotals{Claimed: 1, Settled: 1}}
	if got := r.channel("in").Claims; got != want {
		t.Errorf("stats %+v", got)
	}
}

func TestAClaimAndSendThatIsRefusedAppendsAndClaimsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*rig)
		want    fsm.Code
		free    bool
	}{
		"in flight":  {func(r *rig) { r.ok(by(bob, fsm.OpClaim)) }, fsm.CodeClaimInFlight, false},
		"settled":    {func(r *rig) { r.ok(by(bob, fsm.OpClaimAndSend)) }, fsm.CodeDuplicate, false},
		"queue gone": {func(r *rig) { r.ok(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "q"}) }, fsm.CodeQueueNotFound, true},
		"spool full": {func(r *rig) {
			r.ok(fsm.Command{Op: fsm.OpSetCaps, Caps: fsm.Caps{MaxDataBytes: 1}})
			r.ok(send("q", "x"))
		}, fsm.CodeSpoolFull, true},
		"suspended":    {func(r *rig) { r.ok(fsm.Command{Op: fsm.OpSetCaps, Suspended: true}) }, fsm.CodeSpoolSuspended, true},
		"channel gone": {func(r *rig) { r.ok(remove("in")) }, fsm.CodeDocumentNotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newChannelRig(t)
			r.create("q", nil)
			c.prepare(r)
			before := r.m.Hash()
			r.want(c.want, by(alice, fsm.OpClaimAndSend))
			if r.m.Hash() != before {
				t.Error("a refusal changed something")
			}
			if c.free {
				r.ok(by(bob, fsm.OpClaim))
			}
		})
	}
}

func TestAChannelRemembersNoMoreThanItMay(t *testing.T) {
	r := newChannelRig(t)
	claim := func(key string, owner fsm.Owner, op fsm.Op) fsm.Command {
		c := by(owner, op)
		c.Key, c.MaxKeys = fsm.FingerprintOf(key), 2
		return c
	}
	r.ok(claim("a", alice, fsm.OpClaim))
	r.ok(claim("b", alice, fsm.OpClaim))
	if full := r.want(fsm.CodeChannelFull, claim("c", bob, fsm.OpClaim)); full.Max != 2 {
		t.Errorf("max %d, want 2", full.Max)
	}
	r.ok(claim("a", alice, fsm.OpClaim)) // takes no more room
	r.ok(claim("b", alice, fsm.OpSettleClaim))
	r.want(fsm.CodeDuplicate, claim("b", bob, fsm.OpClaim))
	r.nowMs += windowMs // what is over takes none, though nothing has swept it
	r.ok(claim("c", bob, fsm.OpClaim))
	r.ok(claim("d", bob, fsm.OpClaim))
	r.want(fsm.CodeChannelFull, claim("e", bob, fsm.OpClaim))
}

func TestDeletingAChannelForgetsItsKeys(t *testing.T) {
	r := newChannelRig(t)
	empty := r.m.Hash()
	r.ok(by(alice, fsm.OpClaim))
	r.ok(by(alice, fsm.OpSettleClaim))
	r.ok(remove("in"))
	r.want(fsm.CodeDocumentNotFound, by(bob, fsm.OpClaim))
	if _, due := r.m.NextDueMs(); due {
		t.Error("something of the channel is still due")
	}
	r.ok(put("in", "{}"))
	r.ok(by(bob, fsm.OpClaim))
	if r.m.Hash() == empty {
		t.Error("the hash knows nothing of claims")
	}
}

func TestEveryClaimIsAccountedFor(t *testing.T) {
	r := newChannelRig(t)
	claim := func(op fsm.Op, key string, owner fsm.Owner) {
		c := by(owner, op)
		c.Key = fsm.FingerprintOf(key)
		r.ok(c)
	}
	for _, key := range []string{"settled", "released", "taken", "lapsed"} {
		claim(fsm.OpClaim, key, alice)
	}
	claim(fsm.OpSettleClaim, "settled", alice)
	claim(fsm.OpReleaseClaim, "released", alice)
	r.nowMs += lapseMs
	claim(fsm.OpClaim, "taken", bob)
	r.nowMs += windowMs - lapseMs
	want := fsm.ClaimStats{Open: 1, Totals: fsm.ClaimTotals{Claimed: 5, Settled: 1, Released: 1, Lapsed: 2}}
	if got := r.channel("in").Claims; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheSweepOfClaimsIsBoundedAndNobodyNoticesHowFarItGot(t *testing.T) {
	r := newChannelRig(t)
	const claims = 5_000
	var cs []fsm.Command
	for i := range claims {
		c := by(alice, fsm.OpClaim)
		c.Key, c.MaxKeys = fsm.FingerprintOf(fmt.Sprint(i)), claims
		cs = append(cs, c)
	}
	r.batch(cs)
	if dueMs, ok := r.m.NextDueMs(); !ok || dueMs != r.nowMs+windowMs {
		t.Errorf("due at %d, %v", dueMs, ok)
	}
	fsm.SetSweepLimit(r.m, 1_000)
	r.nowMs += windowMs
	last := cs[claims-1]
	last.Owner = bob
	r.ok(last)
	open := func() uint64 {
		return r.m.Image().Read(fsm.Query{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 1}).Documents[0].Claims.Open
	}
	if n := open(); n < claims-1_100 || n > claims-900 {
		t.Errorf("%d claims are left after one batch", n)
	}
	for range 5 {
		r.do(fsm.Command{Op: fsm.OpReceive, Queue: "none"})
	}
	if n := open(); n != 1 {
		t.Errorf("%d claims are left at the end, want 1", n)
	}
}

func TestADocumentIsChangedOnlyAsTheVersionThatIsMeant(t *testing.T) {
	r := newRig(t)
	versioned := func(c fsm.Command, version uint64) fsm.Command {
		c.Version = version
		return c
	}
	r.want(fsm.CodeVersionConflict, versioned(put("in", "a"), 1))
	first := r.ok(put("in", "a"))
	second := r.ok(versioned(put("in", "b"), first.Version))
	if stale := r.want(fsm.CodeVersionConflict, versioned(put("in", "c"), first.Version)); stale.Version != second.Version {
		t.Errorf("version %d, want %d", stale.Version, second.Version)
	}
	r.want(fsm.CodeVersionConflict, versioned(remove("in"), first.Version))
	r.ok(versioned(remove("in"), second.Version))
	r.want(fsm.CodeDocumentNotFound, remove("in"))
	if again := r.ok(put("in", "d")); again.Version <= second.Version {
		t.Errorf("a version came twice: %d after %d", again.Version, second.Version)
	}
	if d := r.channel("in"); d.Document != "d" || d.ChangedAtMs != r.nowMs || r.m.Revision() != d.Version {
		t.Errorf("the document is %+v at revision %d", d, r.m.Revision())
	}
}

func TestAChangedChannelKeepsItsKeys(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	r.ok(by(alice, fsm.OpSettleClaim))
	r.ok(put("in", `{"other":1}`))
	r.want(fsm.CodeDuplicate, by(bob, fsm.OpClaim))
}

func TestDocumentsAreBounded(t *testing.T) {
	r := newRig(t)
	r.want(fsm.CodeInvalidCommand, put("in", strings.Repeat("x", fsm.MaxDocumentBytes+1)))
	var cs []fsm.Command
	for i := range fsm.MaxDocuments {
		cs = append(cs, put(fmt.Sprint(i), ""))
	}
	r.batch(cs)
	if full := r.want(fsm.CodeDocumentLimit, put("one-more", "")); full.Max != fsm.MaxDocuments {
		t.Errorf("max %d", full.Max)
	}
	r.ok(put("7", "a change of one that is there"))
	connector := put("one-more", "")
	connector.Kind = fsm.ConnectorDocument
	r.ok(connector)
}

func TestAClaimWithoutBoundsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*fsm.Command){
		"no window":       func(c *fsm.Command) { c.WindowSeconds = 0 },
		"endless window":  func(c *fsm.Command) { c.WindowSeconds = fsm.MaxClaimWindowSeconds + 1 },
		"no lapse":        func(c *fsm.Command) { c.LapseMs = 0 },
		"endless lapse":   func(c *fsm.Command) { c.LapseMs = fsm.MaxClaimLapseMs + 1 },
		"no keys":         func(c *fsm.Command) { c.MaxKeys = 0 },
		"no channel name": func(c *fsm.Command) { c.Name = "" },
		"long name":       func(c *fsm.Command) { c.Name = strings.Repeat("n", fsm.MaxNameBytes+1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newChannelRig(t)
			c := by(alice, fsm.OpClaim)
			change(&c)
			r.want(fsm.CodeInvalidCommand, c)
		})
	}
}

func TestAnImageKeepsItsClaims(t *testing.T) {
	r := newChannelRig(t)
	r.ok(by(alice, fsm.OpClaim))
	image := r.m.Image()
	wantHash := r.m.Hash()
	r.ok(by(alice, fsm.OpSettleClaim))
	r.ok(remove("in"))
	b := fsm.NewBuilder(image.Header())
	fill(t, b, image)
	if m, err := b.Finish(); err != nil || m.Hash() != wantHash {
		t.Fatalf("the image changed after it was taken: %v", err)
	}
}
