package channel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/channel"
	"github.com/spoolraft/spoolraft/fsm"
)

func TestRule1ADeliveryWithoutTheHeaderIsNotChecked(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.ok(keyed())
	r.ok(keyed())
	if r.runs != 2 || r.store.log() != "" {
		t.Errorf("%d runs, the store saw %q", r.runs, r.store.log())
	}
}

func TestRule1AnEmptyRepeatedOrOverLongHeaderIs400(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	for _, d := range []*channel.Delivery{keyed(""), keyed("a", "a"), keyed(strings.Repeat("k", 257))} {
		r.refused(d, 400, "invalid_dedup_key")
	}
	r.ok(keyed(strings.Repeat("k", 256)))
	if r.runs != 1 {
		t.Errorf("%d runs, want 1", r.runs)
	}
}

func TestRule1KeysAreScopedByChannel(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.add("other", dedup, httpStep)
	r.ok(keyed("k"))
	if _, err := r.channels["other"].Deliver(t.Context(), keyed("k")); err != nil {
		t.Error(err)
	}
}

func TestRule2ADeliveryIsClaimedBeforeTheWorkflowAndSettledAfterIt(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.server = func(*http.Request) (int, string) {
		if log := r.store.log(); log != "claim" {
			t.Errorf("during the workflow the store has seen %q", log)
		}
		return 200, "done"
	}
	if body := r.ok(keyed("k")); body != "done" {
		t.Errorf("answered %q", body)
	}
	if log := r.store.log(); log != "claim settle" {
		t.Errorf("the store has seen %q", log)
	}
}

func TestRule2AFailedDeliveryIsProcessedAgainOnRetry(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.server = func(*http.Request) (int, string) { return 500, "" }
	r.refused(keyed("k"), 502, "step_failed")
	r.server = func(*http.Request) (int, string) { return 204, "" }
	r.ok(keyed("k"))
	if log := r.store.log(); log != "claim release claim settle" {
		t.Errorf("the store has seen %q", log)
	}
}

func TestRule2ATimedOutDeliveryIsProcessedAgainOnRetry(t *testing.T) {
	r := newRig(t, dedup, httpStep, `"timeout_ms": 1`)
	r.server = func(q *http.Request) (int, string) { <-q.Context().Done(); return 200, "too late" }
	r.refused(keyed("k"), 504, "timeout")
	if log := r.store.log(); log != "claim release" {
		t.Errorf("the store has seen %q", log)
	}
}

func TestRule2APanicReleasesTheClaim(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.env.HTTP = nil
	func() {
		defer func() { _ = recover() }()
		r.ok(keyed("k"))
	}()
	if log := r.store.log(); log != "claim release" {
		t.Errorf("the store has seen %q", log)
	}
}

func TestRule2AClaimWhoseNodeDiedLapsesAfterTheTimeoutAndAMargin(t *testing.T) {
	r := newRig(t, dedup, httpStep, `"timeout_ms": 20000`)
	dead := channel.Claim{Channel: "in", Key: fsm.FingerprintOf("k"), Owner: fsm.Owner{99}}
	r.server = func(*http.Request) (int, string) {
		// What another node would see while this one runs, and after it died.
		other := dead
		other.Owner = fsm.Owner{98}
		d, err := r.store.Store.Claim(t.Context(), other, channel.Terms{Window: time.Minute, Lapse: time.Second})
		if err != nil || d.Verdict != channel.InFlight || d.RetryAfter <= 20*time.Second || d.RetryAfter > time.Minute {
			t.Errorf("the claim is %+v, %v", d, err)
		}
		r.clock.Advance(d.RetryAfter)
		if d, _ = r.store.Store.Claim(t.Context(), other, channel.Terms{Window: time.Minute, Lapse: time.Second}); d.Verdict != channel.Claimed {
			t.Errorf("after it lapsed a claim gives %+v", d)
		}
		return 200, ""
	}
	r.ok(keyed("k"))
}

func TestRule3ARepeatOfASettledKeyIs409DuplicateWithoutAWorkflow(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.ok(keyed("secret-key"))
	if refusal := r.refused(keyed("secret-key"), 409, "duplicate"); strings.Contains(refusal.Error(), "secret-key") {
		t.Errorf("the message echoes the key: %v", refusal)
	}
	if r.runs != 1 {
		t.Errorf("%d runs, want 1", r.runs)
	}
}

func TestRule3ARepeatOfAKeyInFlightIs409InFlightWithRetryAfter(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.server = func(*http.Request) (int, string) {
		refusal := r.refused(keyed("secret-key"), 409, "in_flight")
		if refusal.RetryAfter <= 0 || strings.Contains(refusal.Error(), "secret-key") {
			t.Errorf("refused with %v, retry after %v", refusal, refusal.RetryAfter)
		}
		return 200, ""
	}
	r.ok(keyed("secret-key"))
	if r.runs != 1 {
		t.Errorf("%d runs, want 1", r.runs)
	}
}

func TestRule4ALateSettleOfAnOwnerThatLostItsClaimChangesNothing(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	first := true
	r.server = func(*http.Request) (int, string) {
		if !first {
			return 500, ""
		}
		first = false
		r.clock.Advance(time.Hour)
		r.refused(keyed("k"), 502, "step_failed") // takes the key over, and frees it
		return 200, ""
	}
	r.ok(keyed("k"))
	r.server = func(*http.Request) (int, string) { return 200, "" }
	r.ok(keyed("k"))
}

func TestRule4TheWindowStartsAnewAtTheSettle(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	r.server = func(*http.Request) (int, string) { r.clock.Advance(10 * time.Second); return 200, "" }
	r.ok(keyed("k"))
	r.clock.Advance(60*time.Second - time.Millisecond)
	r.refused(keyed("k"), 409, "duplicate")
	r.clock.Advance(time.Millisecond)
	r.ok(keyed("k"))
}

// replicated is a channel of one enqueue over a machine.
func replicated(t *testing.T) (*channel.Channel, *machine) {
	m := newMachine(t, newClock())
	c, err := channel.Parse([]byte(`{` + dedup + `, "steps": [{"enqueue": {"queue": "q"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	owner := byte(0)
	env := &channel.Env{Now: m.clock.Now, NewOwner: func() fsm.Owner { owner++; return fsm.Owner{owner} }}
	return channel.New("in", c, channel.NewReplicatedStore(m), env), m
}

func TestRule5ClaimAppendAndSettleAreOneEntryWhereTheWorkflowIsOneEnqueue(t *testing.T) {
	ch, m := replicated(t)
	if _, err := ch.Deliver(t.Context(), keyed("k")); err != nil {
		t.Fatal(err)
	}
	_, err := ch.Deliver(t.Context(), keyed("k"))
	var refusal *channel.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != "duplicate" {
		t.Errorf("the repeat gives %v", err)
	}
	if !slices.Equal(m.ops, []fsm.Op{fsm.OpClaimAndSend, fsm.OpClaimAndSend}) || m.messages() != 1 {
		t.Errorf("commands %v, %d messages", m.ops, m.messages())
	}
}

func TestRule5TheOutcomeOfTheOneEntryIsToldAsItIs(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{fsm.ErrNotApplied, 503},
		{fsm.ErrClosed, 503},
		{fsm.ErrUnknown, 500},
	} {
		ch, m := replicated(t)
		m.err = fmt.Errorf("no quorum: %w", c.err)
		_, err := ch.Deliver(t.Context(), keyed("k"))
		var refusal *channel.Refusal
		if !errors.As(err, &refusal) || refusal.Status != c.status {
			t.Errorf("%v gives %v, want status %d", c.err, err, c.status)
		}
	}
}

func TestRule6ARefusalByAnEarlierGuardNeverTouchesTheStore(t *testing.T) {
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		field  string
		change func(d *channel.Delivery)
	}{
		"authentication": {`"timeout_ms": 1000`, func(d *channel.Delivery) { d.Authenticate = func() error { return denied } }},
		"origin":         {`"timeout_ms": 1000`, func(d *channel.Delivery) { d.CheckOrigin = func() error { return denied } }},
		"validation":     {`"max_body_bytes": 3`, func(*channel.Delivery) {}},
		"rate limit":     {`"rate_limit": {"per_second": 1, "burst": 1}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, dedup, httpStep, c.field)
			d := keyed("k")
			if c.change == nil {
				r.ok(keyed()) // takes the only token
			} else {
				c.change(d)
			}
			if _, err := r.channels["in"].Deliver(t.Context(), d); err == nil || r.store.log() != "" {
				t.Errorf("gives %v, the store saw %q", err, r.store.log())
			}
		})
	}
}

func TestRule6TheGuardsStandInTheirOrder(t *testing.T) {
	r := newRig(t, dedup, httpStep, `"rate_limit": {"per_second": 1, "burst": 1}`, `"max_body_bytes": 3`)
	var asked []string
	d := keyed("k")
	d.Authenticate = func() error { asked = append(asked, "authentication"); return nil }
	d.CheckOrigin = func() error { asked = append(asked, "origin"); return nil }
	r.refused(d, 413, "body_too_large")
	if !slices.Equal(asked, []string{"authentication", "origin"}) {
		t.Errorf("asked %v before the validation", asked)
	}
	asked = nil
	if limited := r.refused(d, 429, "rate_limited"); limited.RetryAfter != time.Second || len(asked) > 0 {
		t.Errorf("retry after %v, asked %v before the rate limit", limited.RetryAfter, asked)
	}
}

func TestRule6ARefusalByTheConcurrencyLimitReleasesTheClaim(t *testing.T) {
	r := newRig(t, dedup, httpStep, `"max_concurrency": 1`)
	r.server = func(*http.Request) (int, string) {
		r.refused(keyed("second"), 503, "overloaded")
		return 200, ""
	}
	r.ok(keyed("first"))
	if log := r.store.log(); log != "claim claim release settle" {
		t.Errorf("the store has seen %q", log)
	}
	r.server = func(*http.Request) (int, string) { return 200, "" }
	r.ok(keyed("second"))
}

func TestRule7AChannelCallCarriesNoKey(t *testing.T) {
	r := newRig(t, dedup, `"steps": [{"channel_call": {"channel": "inner"}}]`)
	r.add("inner", dedup, httpStep)
	for i := range 3 {
		r.ok(keyed(fmt.Sprint(i)))
	}
	if log := r.store.log(); r.runs != 3 || strings.Count(log, "claim") != 3 {
		t.Errorf("%d runs, the store saw %q", r.runs, log)
	}
}

func TestRule7EverythingElseOfTheCalledChannelHolds(t *testing.T) {
	call := `"steps": [{"channel_call": {"channel": "inner"}}]`
	for name, field := range map[string]string{
		"rate limit": `"rate_limit": {"per_second": 1, "burst": 1}`,
		"body":       `"max_body_bytes": 3`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, call)
			r.add("inner", httpStep, field)
			_, _ = r.channels["inner"].Deliver(t.Context(), &channel.Delivery{}) // takes a token
			r.refused(keyed(), 502, "step_failed")
		})
	}
	t.Run("calls end", func(t *testing.T) {
		r := newRig(t, `"steps": [{"channel_call": {"channel": "in"}}]`)
		r.refused(keyed(), 502, "step_failed")
	})
}

func TestAStoreThatCannotAnswerIsHandledAsThePolicySays(t *testing.T) {
	for policy, wantRuns := range map[string]int{"allow": 2, "deny": 0} {
		t.Run(policy, func(t *testing.T) {
			r := newRig(t, `"deduplication": {"header": "Idempotency-Key", "on_backend_error": "`+policy+`"}`, httpStep)
			r.store.err = errors.New("down")
			for range 2 {
				if policy == "allow" {
					r.ok(keyed("k"))
				} else if refusal := r.refused(keyed("k"), 503, "dedup_unavailable"); refusal.RetryAfter <= 0 {
					t.Error("no Retry-After")
				}
			}
			if r.runs != wantRuns {
				t.Errorf("%d runs, want %d", r.runs, wantRuns)
			}
		})
	}
}

func TestTheBodyFlowsThroughTheSteps(t *testing.T) {
	r := newRig(t, `"steps": [{"enqueue": {"queue": "a", "delay_seconds": 5}},
		{"http": {"url": "http://server/", "method": "PUT", "headers": {"X-Of": "test"}}}, {"enqueue": {"spool": "s", "queue": "b"}}]`)
	r.server = func(q *http.Request) (int, string) {
		if q.Method != "PUT" || q.Header.Get("X-Of") != "test" {
			t.Errorf("request %s with %v", q.Method, q.Header)
		}
		return 201, "answer"
	}
	if body := r.ok(keyed()); body != "answer" {
		t.Errorf("answered %q", body)
	}
	got := fmt.Sprint(r.queued)
	if want := "[{{default a 5} [98 111 100 121]} {{s b 0} [97 110 115 119 101 114]}]"; got != want {
		t.Errorf("queued %s, want %s", got, want)
	}
}

func TestAClientThatGoesAwayFreesItsKey(t *testing.T) {
	r := newRig(t, dedup, httpStep)
	ctx, cancel := context.WithCancel(t.Context())
	r.server = func(*http.Request) (int, string) { cancel(); return 200, "" }
	if _, err := r.channels["in"].Deliver(ctx, keyed("k")); err == nil || r.store.log() != "claim release" {
		t.Errorf("gives %v, the store saw %q", err, r.store.log())
	}
}
