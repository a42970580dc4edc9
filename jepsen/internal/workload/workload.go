package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// Queue is a queue that a workload needs.
type Queue struct {
	Name     string
	Settings history.Settings
}

// Workload is a source of units. Its methods are safe for concurrent use.
type Workload interface {
	// Queues are made before the run and drained after it.
	Queues() []Queue
	// Unit does one thing. It begins nothing new once ctx is done.
	Unit(ctx context.Context, s *Session)
	// Finish settles what the run left open. The cluster is well.
	Finish(ctx context.Context, s *Session)
}

// Session is one client's view during one unit.
type Session struct {
	API     *client.Client
	Targets []client.Target
	Client  int
	Dice    dice.Dice
	Seed    uint64
	Unit    int64 // of this client, from 1
}

// NewSession returns the session of one unit, with dice of its own.
func NewSession(api *client.Client, targets []client.Target, seed uint64, clientNumber int, unit int64) *Session {
	return &Session{
		API: api, Targets: targets, Client: clientNumber, Seed: seed, Unit: unit,
		Dice: dice.New(seed, "client", clientNumber, "unit", unit),
	}
}

// fork returns a session with dice of its own, for something that goes on
// beside the unit.
func (s *Session) fork(n int) *Session {
	f := *s
	f.Dice = dice.New(s.Seed, "client", s.Client, "unit", s.Unit, "fork", n)
	return &f
}

// Anywhere picks a node.
func (s *Session) Anywhere() client.Target { return dice.Pick(s.Dice, s.Targets) }

// Elsewhere picks a node other than the named one, where there is one.
func (s *Session) Elsewhere(node string) client.Target {
	others := slices.DeleteFunc(slices.Clone(s.Targets), func(t client.Target) bool { return t.Node == node })
	if len(others) == 0 {
		return s.Anywhere()
	}
	return dice.Pick(s.Dice, others)
}

// name makes a name that no other unit makes.
func (s *Session) name(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, s.Client, s.Unit)
}

// ops is the context of single calls: the end of a run breaks none off.
func ops() context.Context { return context.Background() }

// wait pauses, and is false where the run ended meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The names of the workloads.
const (
	KeyedSend  = "keyed-send"
	Lifecycle  = "lifecycle"
	Pipeline   = "pipeline"
	Window     = "window"
	Mixed      = "mixed"
	Membership = "membership"
)

// about says what each workload does, in the order of the documentation.
var about = []struct{ name, text string }{
	{KeyedSend, "keyed sends, retried with the same key at other nodes after every unknown outcome; long and short window"},
	{Lifecycle, "send, receive, renew, nack, release, fail, recover, discard, ack, with stale tokens thrown in"},
	{Pipeline, "messages that move from queue to queue by ack-and-send"},
	{Window, "window changes and queues made again among keyed retries"},
	{Mixed, "all of the above at once"},
	{Membership, "keyed sends while nodes join and leave, restart one by one and lead in turn (its faults join, leave, transfer and rolling come with it)"},
}

// List describes the workloads, one a line.
func List() string {
	var b strings.Builder
	for _, w := range about {
		fmt.Fprintf(&b, "  %-16s%s\n", w.name, w.text)
	}
	return b.String()
}

// Names lists the workloads.
func Names() []string {
	var names []string
	for _, w := range about {
		names = append(names, w.name)
	}
	return names
}

// New returns a workload.
func New(name string) (Workload, error) {
	switch name {
	case KeyedSend, Membership:
		return newKeyedSend(), nil
	case Lifecycle:
		return newLifecycle(), nil
	case Pipeline:
		return newPipeline(), nil
	case Window:
		return newWindow(), nil
	case Mixed:
		return mixed{newKeyedSend(), newLifecycle(), newPipeline(), newWindow()}, nil
	}
	return nil, fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(Names(), ", "))
}

// mixed is several workloads, each in its own queues.
type mixed []Workload

// Queues implements Workload.
func (m mixed) Queues() []Queue {
	var all []Queue
	for _, w := range m {
		all = append(all, w.Queues()...)
	}
	return all
}

// Unit implements Workload.
func (m mixed) Unit(ctx context.Context, s *Session) {
	m[s.Dice.IntN(len(m))].Unit(ctx, s)
}

// Finish implements Workload.
func (m mixed) Finish(ctx context.Context, s *Session) {
	for _, w := range m {
		w.Finish(ctx, s)
	}
}

func settings(leaseSeconds, maxRetries, windowSeconds int) history.Settings {
	return history.Settings{
		LeaseTimeoutSeconds: &leaseSeconds, MaxRetries: &maxRetries, DedupWindowSeconds: &windowSeconds,
	}
}
