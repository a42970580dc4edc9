package channel

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

const (
	// lapseMargin is added to a channel's timeout, for the settle after a run that
	// took all of it.
	lapseMargin = 10 * time.Second
	// storeTimeout bounds what a delivery waits for its store, once at a time.
	storeTimeout = 5 * time.Second
	maxKeyBytes  = 256
	maxCallDepth = 8
)

// Env is what channels need of the world.
type Env struct {
	Now      func() time.Time
	NewOwner func() fsm.Owner
	HTTP     *http.Client
	Append   func(ctx context.Context, m Message) error
	Channel  func(name string) (*Channel, bool) // for channel_call
}

// Delivery is a request to a channel, whatever it came by. The two checks
// belong to the transport; nil passes.
type Delivery struct {
	Header       http.Header
	Body         []byte
	Authenticate func() error
	CheckOrigin  func() error
}

// Channel processes deliveries as its configuration says. It is safe for
// concurrent use.
type Channel struct {
	name    string
	config  *Config
	store   Store
	env     *Env
	limiter *limiter
	slots   slots
}

// New returns a channel. The store may be nil where the configuration has no
// deduplication.
func New(name string, c *Config, store Store, env *Env) *Channel {
	return &Channel{name: name, config: c, store: store, env: env, limiter: newLimiter(c.RateLimit), slots: newSlots(c.MaxConcurrency)}
}

// Deliver runs the guards in their order (rate limit, authentication, origin,
// validation, deduplication, concurrency) and then the workflow, and returns the
// last body. The error is a [*Refusal], or what a check returned.
func (ch *Channel) Deliver(ctx context.Context, d *Delivery) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ch.config.Timeout)
	defer cancel()
	if err := ch.limitRate(); err != nil {
		return nil, err
	}
	for _, check := range []func() error{d.Authenticate, d.CheckOrigin} {
		if check == nil {
			continue
		}
		if err := check(); err != nil {
			return nil, err
		}
	}
	if err := ch.checkBody(d.Body); err != nil {
		return nil, err
	}
	key, keyed, err := ch.key(d.Header)
	switch {
	case err != nil:
		return nil, err
	case !keyed:
		return ch.process(ctx, d.Body, 0)
	}
	c := Claim{Channel: ch.name, Key: key, Owner: ch.env.NewOwner()}
	if atomic, ok := ch.store.(AtomicStore); ok && ch.onlyEnqueues() {
		return ch.appendAtOnce(ctx, atomic, c, d.Body)
	}
	return ch.processClaimed(ctx, c, d.Body)
}

func (ch *Channel) limitRate() error {
	if wait := ch.limiter.take(ch.env.Now()); wait > 0 {
		return &Refusal{Status: 429, Kind: "rate_limited", RetryAfter: wait, Message: "the channel's rate limit is reached; nothing was processed"}
	}
	return nil
}

func (ch *Channel) checkBody(body []byte) error {
	if len(body) > ch.config.MaxBodyBytes {
		return &Refusal{Status: 413, Kind: "body_too_large", Message: "the body is larger than the channel takes; nothing was processed"}
	}
	return nil
}

// key is what a delivery's repeats are told by. Without the header it is not
// checked.
func (ch *Channel) key(h http.Header) (key fsm.Fingerprint, keyed bool, err error) {
	d := ch.config.Deduplication
	if d == nil {
		return key, false, nil
	}
	switch values := h.Values(d.Header); {
	case len(values) == 0:
		return key, false, nil
	case len(values) > 1:
		return key, false, badKey("is given more than once")
	case values[0] == "":
		return key, false, badKey("is empty")
	case len(values[0]) > maxKeyBytes:
		return key, false, badKey("is longer than 256 bytes")
	default:
		return fsm.FingerprintOf(values[0]), true, nil
	}
}

func (ch *Channel) terms() Terms {
	return Terms{Window: ch.config.Deduplication.Window, Lapse: ch.config.Timeout + lapseMargin}
}

func (ch *Channel) onlyEnqueues() bool {
	return len(ch.config.Steps) == 1 && ch.config.Steps[0].Enqueue != nil
}

// appendAtOnce claims, appends and settles in one step. Where the store can't
// answer the queue can't either, so that there is nothing to proceed to.
func (ch *Channel) appendAtOnce(ctx context.Context, store AtomicStore, c Claim, body []byte) ([]byte, error) {
	if !ch.slots.take() {
		return nil, overloaded()
	}
	defer ch.slots.give()
	decision, err := store.ClaimAndAppend(ctx, c, ch.terms(), Message{*ch.config.Steps[0].Enqueue, body})
	var step *StepError
	switch {
	case errors.As(err, &step):
		return nil, failed(err)
	case errors.Is(err, fsm.ErrNotApplied), errors.Is(err, fsm.ErrClosed):
		return nil, storeDown()
	case err != nil:
		return nil, unconfirmed()
	}
	if refusal := decision.refusal(); refusal != nil {
		return nil, refusal
	}
	return body, nil
}

// processClaimed runs the workflow between a claim and its end.
func (ch *Channel) processClaimed(ctx context.Context, c Claim, body []byte) ([]byte, error) {
	decision, err := ch.claim(ctx, c)
	switch {
	case err != nil && ch.config.Deduplication.Deny:
		return nil, storeDown()
	case err != nil:
		return ch.process(ctx, body, 0)
	}
	if refusal := decision.refusal(); refusal != nil {
		return nil, refusal
	}
	done := false
	defer func() { ch.end(ctx, c, done) }() // also where a step panics
	answer, err := ch.process(ctx, body, 0)
	done = err == nil
	return answer, err
}

func (ch *Channel) claim(ctx context.Context, c Claim) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return ch.store.Claim(ctx, c, ch.terms())
}

// end settles or releases a claim, also when the delivery's time is over. If
// that fails the claim lapses: the outcome is what it is, and a repeat is
// processed again rather than lost.
func (ch *Channel) end(ctx context.Context, c Claim, done bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if done {
		_ = ch.store.Settle(ctx, c, ch.config.Deduplication.Window)
	} else {
		_ = ch.store.Release(ctx, c)
	}
}

func (d Decision) refusal() error {
	switch d.Verdict {
	case Duplicate:
		return duplicate()
	case InFlight:
		return inFlight(d.RetryAfter)
	default:
		return nil
	}
}
