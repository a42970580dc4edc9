// Package storetest is what every store of claims promises, as a suite that each
// runs. Its clock is the test's. The idea of one suite for all drivers is
// River's riverdrivertest.
package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/channel"
	"github.com/spoolraft/spoolraft/fsm"
)

// Harness is a store that knows channels "in" and "other", and its clock.
type Harness struct {
	Store   channel.Store
	Advance func(time.Duration)
}

const (
	window = time.Minute
	lapse  = 5 * time.Second
)

var terms = channel.Terms{Window: window, Lapse: lapse}

// by is the owner's claim of the key "k" in the channel "in".
func by(owner byte) channel.Claim {
	return channel.Claim{Channel: "in", Key: fsm.FingerprintOf("k"), Owner: fsm.Owner{owner}}
}

const alice, bob = 1, 2

// run drives one store.
type run struct {
	*testing.T
	Harness
}

func (r *run) claim(c channel.Claim, want channel.Verdict) time.Duration {
	r.Helper()
	got, err := r.Store.Claim(r.Context(), c, terms)
	if err != nil || got.Verdict != want {
		r.Fatalf("a claim gives %+v, %v; want verdict %d", got, err, want)
	}
	return got.RetryAfter
}

func (r *run) settle(c channel.Claim, want error) {
	r.Helper()
	if err := r.Store.Settle(r.Context(), c, window); !errors.Is(err, want) {
		r.Fatalf("a settle gives %v, want %v", err, want)
	}
}

func (r *run) release(c channel.Claim, want error) {
	r.Helper()
	if err := r.Store.Release(r.Context(), c); !errors.Is(err, want) {
		r.Fatalf("a release gives %v, want %v", err, want)
	}
}

// Run holds the stores that open returns against the suite.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) { test(&run{t, open(t)}) })
	}
}

var suite = map[string]func(r *run){
	"a claim is in flight for others until it lapses": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.Advance(lapse - time.Millisecond)
		if wait := r.claim(by(bob), channel.InFlight); wait != time.Millisecond {
			r.Errorf("retry after %v, want 1ms", wait)
		}
		r.Advance(time.Millisecond)
		r.claim(by(bob), channel.Claimed)
	},
	"an owner knows its own claim": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.claim(by(alice), channel.Claimed)
	},
	"a settled key is a duplicate until a window after the settle": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.Advance(time.Second)
		r.settle(by(alice), nil)
		r.Advance(window - time.Millisecond)
		r.claim(by(bob), channel.Duplicate)
		r.claim(by(alice), channel.Duplicate)
		r.Advance(time.Millisecond)
		r.claim(by(bob), channel.Claimed)
	},
	"a repeated settle does not prolong the window": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.settle(by(alice), nil)
		r.Advance(window - time.Millisecond)
		r.settle(by(alice), nil)
		r.Advance(time.Millisecond)
		r.claim(by(bob), channel.Claimed)
	},
	"a released key is free": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.release(by(alice), nil)
		r.claim(by(bob), channel.Claimed)
	},
	"a settled key is not released": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.settle(by(alice), nil)
		r.release(by(alice), channel.ErrClaimLost)
		r.claim(by(bob), channel.Duplicate)
	},
	"an owner that lost its claim changes nothing": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.Advance(lapse)
		r.claim(by(bob), channel.Claimed)
		r.settle(by(alice), channel.ErrClaimLost)
		r.release(by(alice), channel.ErrClaimLost)
		r.claim(by(alice), channel.InFlight)
		r.settle(by(bob), nil)
		r.release(by(alice), channel.ErrClaimLost)
		r.claim(by(alice), channel.Duplicate)
	},
	"a lapsed claim that nobody took can be settled within its window": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.Advance(window - time.Millisecond)
		r.settle(by(alice), nil)
		r.claim(by(bob), channel.Duplicate)
	},
	"a claim is forgotten with its window": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.Advance(window)
		r.settle(by(alice), channel.ErrClaimLost)
		r.release(by(alice), channel.ErrClaimLost)
	},
	"keys are scoped by channel": func(r *run) {
		r.claim(by(alice), channel.Claimed)
		r.settle(by(alice), nil)
		other := by(bob)
		other.Channel = "other"
		r.claim(other, channel.Claimed)
		r.settle(other, nil)
	},
	"of claims at once one succeeds": func(r *run) {
		const n = 20
		verdicts := make(chan channel.Verdict, n)
		for i := range n {
			go func() {
				d, _ := r.Store.Claim(r.Context(), by(byte(i+1)), terms)
				verdicts <- d.Verdict
			}()
		}
		claimed := 0
		for range n {
			switch v := <-verdicts; v {
			case channel.Claimed:
				claimed++
			case channel.InFlight:
			default:
				r.Errorf("verdict %d", v)
			}
		}
		if claimed != 1 {
			r.Errorf("%d claims succeeded, want 1", claimed)
		}
	},
}
