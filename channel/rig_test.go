package channel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/channel"
	"github.com/spoolraft/spoolraft/channel/storetest"
	"github.com/spoolraft/spoolraft/fsm"
)

// clock is set by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_700_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// machine proposes to a machine of its own, each command an entry.
type machine struct {
	mu    sync.Mutex
	clock *clock
	m     *fsm.Machine
	err   error // in place of an answer
	ops   []fsm.Op
}

func newMachine(t *testing.T, c *clock) *machine {
	m := &machine{clock: c, m: fsm.New()}
	for _, cmd := range []fsm.Command{
		{Op: fsm.OpInit, ClusterID: "c"},
		{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "q"},
		{Op: fsm.OpPutDocument, Kind: fsm.ChannelDocument, Name: "in"},
		{Op: fsm.OpPutDocument, Kind: fsm.ChannelDocument, Name: "other"},
	} {
		if r, _ := m.Do(t.Context(), &cmd); r.Code != fsm.CodeOK {
			t.Fatalf("command %d: code %d", cmd.Op, r.Code)
		}
	}
	m.ops = nil
	return m
}

func (m *machine) Do(_ context.Context, c *fsm.Command) (fsm.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = append(m.ops, c.Op)
	if m.err != nil {
		return fsm.Result{}, m.err
	}
	b := fsm.Batch{NowMs: m.clock.Now().UnixMilli(), Commands: []fsm.Command{*c}}
	return m.m.Apply(m.m.AppliedIndex()+1, b)[0], nil
}

func (m *machine) messages() uint64 {
	return m.m.Image().Read(fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Limit: 1}).Sum.Total
}

func TestStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Harness {
			c := newClock()
			return storetest.Harness{Store: channel.NewMemoryStore(c.Now), Advance: c.Advance}
		})
	})
	t.Run("replicated", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			c := newClock()
			return storetest.Harness{Store: channel.NewReplicatedStore(newMachine(t, c)), Advance: c.Advance}
		})
	})
}

// countingStore counts what reaches a store, and fails where it is told to.
type countingStore struct {
	channel.Store
	mu    sync.Mutex
	calls []string
	err   error
}

func (s *countingStore) count(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return s.err
}

func (s *countingStore) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, " ")
}

func (s *countingStore) Claim(ctx context.Context, c channel.Claim, t channel.Terms) (channel.Decision, error) {
	if err := s.count("claim"); err != nil {
		return channel.Decision{}, err
	}
	return s.Store.Claim(ctx, c, t)
}

func (s *countingStore) Settle(ctx context.Context, c channel.Claim, window time.Duration) error {
	return errors.Join(s.count("settle"), s.Store.Settle(ctx, c, window))
}

func (s *countingStore) Release(ctx context.Context, c channel.Claim) error {
	return errors.Join(s.count("release"), s.Store.Release(ctx, c))
}

// answer is what the steps' server does with a request.
type answer func(r *http.Request) (int, string)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
}

// rig is a channel "in" over a memory store, whose steps' server the test is.
type rig struct {
	*testing.T
	clock    *clock
	store    *countingStore
	env      *channel.Env
	channels map[string]*channel.Channel
	runs     int // requests to the server
	server   answer
	queued   []channel.Message
}

const (
	dedup    = `"deduplication": {"header": "Idempotency-Key", "window_secs": 60}`
	httpStep = `"steps": [{"http": {"url": "http://server/"}}]`
)

func newRig(t *testing.T, fields ...string) *rig {
	r := &rig{T: t, clock: newClock(), channels: map[string]*channel.Channel{}}
	r.store = &countingStore{Store: channel.NewMemoryStore(r.clock.Now)}
	r.server = func(*http.Request) (int, string) { return 200, "done" }
	owner := byte(0)
	r.env = &channel.Env{
		Now:      r.clock.Now,
		NewOwner: func() fsm.Owner { owner++; return fsm.Owner{owner} },
		HTTP: &http.Client{Transport: answer(func(q *http.Request) (int, string) {
			r.runs++
			return r.server(q)
		})},
		Append: func(_ context.Context, m channel.Message) error {
			r.queued = append(r.queued, m)
			return nil
		},
		Channel: func(name string) (*channel.Channel, bool) { ch, ok := r.channels[name]; return ch, ok },
	}
	r.add("in", fields...)
	return r
}

func (r *rig) add(name string, fields ...string) {
	r.Helper()
	c, err := channel.Parse([]byte("{" + strings.Join(fields, ",") + "}"))
	if err != nil {
		r.Fatal(err)
	}
	r.channels[name] = channel.New(name, c, r.store, r.env)
}

// keyed is a delivery with these values of its header.
func keyed(values ...string) *channel.Delivery {
	return &channel.Delivery{Header: http.Header{"Idempotency-Key": values}, Body: []byte("body")}
}

func (r *rig) ok(d *channel.Delivery) string {
	r.Helper()
	body, err := r.channels["in"].Deliver(r.Context(), d)
	if err != nil {
		r.Fatal(err)
	}
	return string(body)
}

func (r *rig) refused(d *channel.Delivery, status int, kind string) *channel.Refusal {
	r.Helper()
	_, err := r.channels["in"].Deliver(r.Context(), d)
	var refusal *channel.Refusal
	if !errors.As(err, &refusal) || refusal.Status != status || refusal.Kind != kind {
		r.Fatalf("got %v, want %d %s", err, status, kind)
	}
	return refusal
}
