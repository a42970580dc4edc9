package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// Fault is a kind of fault.
type Fault struct {
	Name, About string
	needs       need
	// inject breaks something and says how to heal it.
	inject func(ctx context.Context, e *env) (injury, error)
	// hold is how long it lasts.
	shortest, longest time.Duration
	// ClockToleranceMs is how far it may move log time away from real time.
	ClockToleranceMs int64
}

// injury is one fault that was injected.
type injury struct {
	target, detail string
	heal           func(ctx context.Context) error // nil: nothing to heal
}

// env is what a fault works with.
type env struct {
	cluster  deploy.Cluster
	founders []string // the nodes at the start
	dice     dice.Dice
	surgery  *sync.Mutex // held while a node's data is destroyed
}

// errNothing says that there is nobody to strike now.
var errNothing = errors.New("no node fits at the moment")

// Known is nil where there is a fault for every name.
func Known(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Find returns the faults with the names, and checks that the deployment can
// have them.
func Find(names []string, c deploy.Cluster) ([]Fault, error) {
	if err := Known(names); err != nil {
		return nil, err
	}
	var found []Fault
	for _, name := range names {
		i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
		if err := all[i].needs.missing(c); err != nil {
			return nil, fmt.Errorf("fault %s: %w", name, err)
		}
		found = append(found, all[i])
	}
	return found, nil
}

// Names lists the faults.
func Names() []string {
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	return names
}

// List describes the faults, one a line.
func List() string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "  %-18s%s\n", f.Name, f.About)
	}
	return b.String()
}

// NeedsDisks reports whether any of the names is a fault of the disk.
func NeedsDisks(names []string) bool {
	return slices.ContainsFunc(all, func(f Fault) bool { return f.needs == disks && slices.Contains(names, f.Name) })
}

// Plan says what to inject, and when.
type Plan struct {
	Faults  []Fault
	Every   time.Duration // the mean time between two faults
	Seed    uint64
	Cluster deploy.Cluster
	Rec     *history.Recorder
	Log     func(format string, args ...any) // tells a person what happens
}

// Run injects until ctx is done, then heals.
func (p *Plan) Run(ctx context.Context) {
	var surgery sync.Mutex
	var loops sync.WaitGroup
	founders := p.Cluster.Nodes()
	for i, f := range p.Faults {
		e := &env{cluster: p.Cluster, founders: founders, dice: dice.New(p.Seed, "fault", f.Name, i), surgery: &surgery}
		loops.Go(func() { p.loop(ctx, f, e) })
	}
	loops.Wait()
}

// loop injects one fault again and again. With several faults each is as much
// rarer, so that the cluster gets no less time to live.
func (p *Plan) loop(ctx context.Context, f Fault, e *env) {
	mean := p.Every * time.Duration(len(p.Faults))
	for {
		gap := e.dice.Between(mean/2, mean*3/2)
		hold := e.dice.Between(f.shortest, f.longest)
		if !sleep(ctx, gap) {
			return
		}
		p.once(ctx, f, e, hold)
	}
}

// once injects, holds, heals and records.
func (p *Plan) once(ctx context.Context, f Fault, e *env, hold time.Duration) {
	record := history.Fault{Name: f.Name, Start: p.Rec.Now()}
	hurt, err := f.inject(ctx, e)
	if errors.Is(err, errNothing) {
		return
	}
	record.Target, record.Detail, record.Struck = hurt.target, hurt.detail, p.Rec.Now()
	p.Log("%s %s %s", f.Name, hurt.target, hurt.detail)
	sleep(ctx, hold)
	if hurt.heal != nil {
		// The end of the run must not keep a fault from being healed.
		err = errors.Join(err, hurt.heal(context.WithoutCancel(ctx)))
	}
	record.End = p.Rec.Now()
	if err != nil {
		record.Error = err.Error()
		p.Log("%s %s: %v", f.Name, hurt.target, err)
	}
	p.Rec.Fault(record)
}

// sleep is false where ctx ended before the time was over.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// anyRunning picks a node that runs.
func (e *env) anyRunning() (string, error) {
	// Drawn among all, so that the plan does not depend on who runs.
	nodes := e.cluster.Nodes()
	first := e.dice.IntN(len(nodes))
	for i := range nodes {
		if node := nodes[(first+i)%len(nodes)]; e.cluster.Running(node) {
			return node, nil
		}
	}
	return "", errNothing
}

// leader returns the node that leads.
func (e *env) leader(ctx context.Context) (string, error) {
	node := e.cluster.Leader(ctx)
	if node == "" || !e.cluster.Running(node) {
		return "", errNothing
	}
	return node, nil
}

// some picks n different nodes.
func (e *env) some(n int) []string {
	nodes := slices.Clone(e.cluster.Nodes())
	e.dice.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	nodes = nodes[:n]
	slices.Sort(nodes)
	return nodes
}

// majority is how many nodes are one more than half.
func (e *env) majority() int { return len(e.cluster.Nodes())/2 + 1 }

// startAll starts the nodes where they are down.
func (e *env) startAll(nodes ...string) error {
	var errs []error
	for _, node := range nodes {
		errs = append(errs, e.cluster.Start(node))
	}
	return errors.Join(errs...)
}

// Heal undoes everything that a fault may have left.
func Heal(c deploy.Cluster) error {
	var errs []error
	if n, ok := c.(deploy.Networked); ok {
		n.Mesh().Clear()
	}
	disked, hasDisks := c.(deploy.Disked)
	hasDisks = hasDisks && disked.HasDisks() == nil
	clocked, hasClocks := c.(deploy.Clocked)
	isolator, isolates := c.(deploy.Isolator)
	for _, node := range c.Nodes() {
		if hasDisks {
			errs = append(errs, disked.HangSyncs(node, false), disked.BreakSyncs(node, false), disked.LeaveFree(node, -1))
		}
		if hasClocks {
			errs = append(errs, clocked.SetClock(node, 0))
		}
		if isolates {
			errs = append(errs, isolator.Isolate(node, false))
		}
		errs = append(errs, c.Pause(node, false), c.Start(node))
	}
	return errors.Join(errs...)
}
