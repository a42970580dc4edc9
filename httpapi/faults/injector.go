package faults

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Injector holds the rules. One can stand in front of several nodes, which then
// share them.
type Injector struct {
	logger        *slog.Logger
	requestPrefix string
	requestCount  atomic.Uint64

	mu     sync.Mutex
	rules  []*rule // in the order in which they were added
	lastID uint64
}

// New returns an injector without rules.
func New(logger *slog.Logger) *Injector {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Injector{logger: logger, requestPrefix: hex.EncodeToString(id[:]) + "-"}
}

// Wrap returns a handler that stands in front of the API: calls under /v1 meet
// the rules, and /faults manages them.
func (i *Injector) Wrap(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v1/"):
			i.serve(api, w, r)
		case path == rulesPath || strings.HasPrefix(path, rulesPath+"/"):
			i.manage(api, w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// plan is what is to happen to one call.
type plan struct {
	delayBefore time.Duration
	delayAfter  time.Duration
	end         *rule // what ends the call instead of its answer, nil for nothing
	rules       []*rule
}

// decide asks the rules in their order. A delay goes on to the next rule,
// everything else ends the search.
func (i *Injector) decide(t target) plan {
	var p plan
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.rules {
		if !r.strikes(t) {
			continue
		}
		p.rules = append(p.rules, r)
		delay := time.Duration(r.DelayMs) * time.Millisecond
		switch {
		case r.Fault != faultDelay:
			p.end = r
			return p
		case r.When == before:
			p.delayBefore += delay
		default:
			p.delayAfter += delay
		}
	}
	return p
}

func (i *Injector) serve(api http.Handler, w http.ResponseWriter, r *http.Request) {
	t := targetOf(r)
	p := i.decide(t)
	for _, struck := range p.rules {
		i.logger.Info("fault injected", "rule", struck.id, "fault", struck.Fault, "when", struck.When, "operation", t.operation.name)
	}
	pause(r.Context(), p.delayBefore)
	switch {
	case p.end != nil && p.end.When == before:
		pause(r.Context(), p.delayAfter)
		drain(w, r)
		i.inject(w, p.end.Fault, t, i.nextRequestID())
	case p.end == nil && p.delayAfter == 0:
		api.ServeHTTP(w, r)
	default:
		held := hold(w)
		api.ServeHTTP(held, r)
		pause(r.Context(), p.delayAfter)
		if p.end == nil {
			held.release()
			return
		}
		if held.status/100 == 2 {
			i.mu.Lock()
			p.end.hidden++
			i.mu.Unlock()
		}
		i.inject(w, p.end.Fault, t, held.header.Get(headerRequestID))
	}
}

// pause waits, also for a client that has gone: what it sent is still on its
// way. Only the end of the server cuts it short.
func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if context.Cause(ctx) == context.Canceled {
			<-timer.C
		}
	}
}

// nextRequestID names a call that never reaches the API, which else names it.
func (i *Injector) nextRequestID() string {
	return i.requestPrefix + strconv.FormatUint(i.requestCount.Add(1), 10)
}
