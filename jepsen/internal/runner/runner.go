package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// The files of a run.
const (
	HistoryFile = "history.jsonl"
	NodesDir    = "nodes"
)

// Runner is the number of the client that is the harness itself.
const Runner = -1

// Config says what to run.
type Config struct {
	Cluster  deploy.Cluster
	Workload workload.Workload
	Faults   []nemesis.Fault
	Header   history.Header // Seed, Workload, Faults, Deploy, Concurrency, Rate, TimeMs and EveryMs are set
	Dir      string
	Timeout  time.Duration                    // of one call
	Patience time.Duration                    // for the cluster to be well, and for each step after the run
	Log      func(format string, args ...any) // tells a person what happens
}

// run is a run under way.
type run struct {
	Config
	rec     *history.Recorder
	api     *client.Client
	targets []client.Target // the nodes as of the last step of the run
}

// Run makes the run. An error means that it could not be made, and says
// nothing about the cluster; what the cluster did is in the history.
func Run(ctx context.Context, c Config) error {
	c.Header.Nodes = append(c.Header.Nodes, c.Cluster.Nodes()...)
	for _, f := range c.Faults {
		c.Header.ClockToleranceMs = max(c.Header.ClockToleranceMs, f.ClockToleranceMs)
	}
	rec, err := history.Create(filepath.Join(c.Dir, HistoryFile), c.Header)
	if err != nil {
		return err
	}
	r := &run{Config: c, rec: rec, api: client.New(rec, "jepsen", c.Timeout)}
	defer r.api.Close()
	r.targets = r.nodes()
	stop := r.watchDigests(ctx)
	err = r.all(ctx)
	stop()
	r.recordExits()
	if err == nil {
		err = r.dumpLogs(ctx)
	}
	if cerr := c.Cluster.Collect(filepath.Join(c.Dir, NodesDir), false); err == nil {
		err = cerr
	}
	r.recordCrashes()
	if cerr := rec.Close(); err == nil {
		err = cerr
	}
	return err
}

// nodes are those that there are now.
func (r *run) nodes() (targets []client.Target) {
	for _, node := range r.Cluster.Nodes() {
		targets = append(targets, r.Cluster.Target(node))
	}
	return targets
}

// all makes the phases. A phase that the cluster does not get through ends
// the run without an error: its absence in the history is the finding.
func (r *run) all(ctx context.Context) error {
	if err := r.setUp(ctx); err != nil {
		return err
	}
	r.rec.Phase(history.PhaseRun)
	r.load(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the run was ended: %w", err)
	}

	r.targets = r.nodes()
	r.rec.Phase(history.PhaseHeal)
	r.Log("heal")
	if err := nemesis.Heal(r.Cluster); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	if !r.within(ctx, func(ctx context.Context) bool { return deploy.AwaitReady(ctx, r.Cluster) == nil }) {
		r.Log("the cluster is not well again after %v", r.Patience)
		return nil
	}
	r.rec.Phase(history.PhaseRetry)
	r.Log("settle what is open")
	if !r.within(ctx, r.settle) {
		return nil
	}
	r.rec.Phase(history.PhaseRead)
	r.readAll()
	r.rec.Phase(history.PhaseDrain)
	r.Log("receive what is left")
	if !r.within(ctx, r.drainAll) {
		return nil
	}
	r.readAll()
	r.rec.Phase(history.PhaseEnd)
	return nil
}

// within gives a step the patience of the run.
func (r *run) within(ctx context.Context, step func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	return step(ctx)
}

// session is one of the harness itself.
func (r *run) session(unit int64) *workload.Session {
	return workload.NewSession(r.api, r.targets, r.Header.Seed, Runner, unit)
}

// setUp waits for the cluster and makes the queues.
func (r *run) setUp(ctx context.Context) error {
	ready, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := deploy.AwaitReady(ready, r.Cluster); err != nil {
		return fmt.Errorf("the cluster does not start: %w", err)
	}
	for _, q := range r.Workload.Queues() {
		o := r.api.CreateQueue(ctx, r.targets[0], Runner, q.Name, q.Settings)
		for o.Outcome != history.OK && o.ErrorKind != "queue_exists" {
			if ready.Err() != nil {
				return fmt.Errorf("the queue %s cannot be made: %d %s", q.Name, o.Status, o.Error)
			}
			time.Sleep(100 * time.Millisecond)
			o = r.api.CreateQueue(ctx, r.targets[0], Runner, q.Name, q.Settings)
		}
	}
	return nil
}

// load runs clients and faults for the time of the run.
func (r *run) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Header.TimeMs)*time.Millisecond)
	defer cancel()
	var busy sync.WaitGroup
	plan := nemesis.Plan{
		Faults: r.Faults, Every: time.Duration(r.Header.EveryMs) * time.Millisecond,
		Seed: r.Header.Seed, Cluster: r.Cluster, Rec: r.rec, Log: r.Log,
	}
	busy.Go(func() { plan.Run(ctx) })
	for i := range r.Header.Concurrency {
		busy.Go(func() { r.client(ctx, i) })
	}
	busy.Wait()
}

// client does unit after unit, at its share of the rate.
func (r *run) client(ctx context.Context, number int) {
	var interval time.Duration
	if r.Header.Rate > 0 {
		interval = time.Duration(r.Header.Concurrency) * time.Second / time.Duration(r.Header.Rate)
	}
	next := time.Now().Add(interval * time.Duration(number) / time.Duration(r.Header.Concurrency))
	for unit := int64(1); ; unit++ {
		if !sleepUntil(ctx, next) {
			return
		}
		r.Workload.Unit(ctx, workload.NewSession(r.api, r.nodes(), r.Header.Seed, number, unit))
		next = later(next.Add(interval), time.Now())
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleepUntil is false where ctx ended before the time came.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// settle lets the workload finish.
func (r *run) settle(ctx context.Context) bool {
	r.Workload.Finish(ctx, r.session(1))
	return ctx.Err() == nil
}

// recordExits notes nodes that ended by themselves.
func (r *run) recordExits() {
	s, ok := r.Cluster.(deploy.Supervised)
	if !ok {
		return
	}
	now, wall := r.rec.Now(), time.Now()
	for _, e := range s.Exits() {
		at := now - int64(wall.Sub(e.At))
		r.rec.Fault(history.Fault{Name: checker.FaultExit, Target: e.Node, Detail: e.Detail, Start: at, End: at})
	}
}

// crash is what a node's log says when it must not go on.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE).*$`)

// recordCrashes searches the nodes' logs.
func (r *run) recordCrashes() {
	logs, _ := filepath.Glob(filepath.Join(r.Dir, NodesDir, "*", "log")) // the pattern is good
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		node := filepath.Base(filepath.Dir(path))
		for _, found := range crash.FindAll(text, 5) {
			now := r.rec.Now()
			r.rec.Fault(history.Fault{Name: checker.FaultPanic, Target: node, Detail: string(found), Start: now, End: now})
		}
	}
}
