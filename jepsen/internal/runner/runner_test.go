package runner

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/fake"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// trial is a short run against the cluster in memory.
type trial struct {
	workload string
	bug      fake.Bug
	length   time.Duration
	faults   []string
	finder   string // the checker that has to find something; "": any outcome ends it
}

// tries is how often a bug that was not found is looked for, each time for
// twice as long: what strikes now and then can miss a short run.
const tries = 3

// look makes the run, and makes it longer while nothing is found.
func (tr trial) look(dir string) (r result) {
	for range tries {
		if r = tr.run(dir); r.err != nil || r.found(tr.finder) {
			break
		}
		tr.length *= 2
	}
	return r
}

// result is what came of a trial.
type result struct {
	history    *history.History
	violations []checker.Violation
	err        error
}

// found reports whether the checker found something.
func (r result) found(checkerName string) bool {
	return checkerName == "" || slices.ContainsFunc(r.violations, func(v checker.Violation) bool { return v.Checker == checkerName })
}

// run makes the run and checks it.
func (tr trial) run(dir string) (r result) {
	const seed = 11
	c, err := deploy.NewFake(3, seed, tr.bug)
	if err != nil {
		return result{err: err}
	}
	defer c.Close()
	w, err := workload.New(tr.workload)
	if err != nil {
		return result{err: err}
	}
	faults, err := nemesis.Find(tr.faults, c)
	if err != nil {
		return result{err: err}
	}
	r.err = Run(context.Background(), Config{
		Cluster: c, Workload: w, Faults: faults, Dir: dir, Timeout: 5 * time.Second, Patience: 30 * time.Second,
		Log: func(string, ...any) {},
		Header: history.Header{
			Seed: seed, Workload: tr.workload, Faults: tr.faults, Deploy: "fake", Plant: string(tr.bug),
			Concurrency: 12, Rate: 300, TimeMs: tr.length.Milliseconds(), EveryMs: 400,
		},
	})
	if r.err != nil {
		return r
	}
	if r.history, r.err = history.Load(filepath.Join(dir, HistoryFile)); r.err == nil {
		r.violations = checker.Violations(checker.Check(r.history))
	}
	return r
}

// together makes the trials, several at a time since a run mostly waits, and
// judges each in a test of its own.
func together(t *testing.T, trials map[string]trial, judge func(t *testing.T, name string, r result)) {
	results := map[string]chan result{}
	room := make(chan struct{}, 10)
	for name, tr := range trials {
		out, dir := make(chan result, 1), t.TempDir()
		results[name] = out
		go func() {
			room <- struct{}{}
			defer func() { <-room }()
			out <- tr.look(dir)
		}()
	}
	for name, out := range results {
		t.Run(name, func(t *testing.T) {
			r := <-out
			if r.err != nil {
				t.Fatal(r.err)
			}
			judge(t, name, r)
		})
	}
}

// roughly are the faults of most trials.
var roughly = []string{"kill-leader", "partition"}

func TestCleanRunsPass(t *testing.T) {
	trials := map[string]trial{}
	for _, name := range workload.Names() {
		trials[name] = trial{workload: name, length: 3 * time.Second, faults: roughly}
	}
	together(t, trials, func(t *testing.T, _ string, r result) {
		for _, v := range r.violations {
			t.Errorf("%s/%s: %s (%v)", v.Checker, v.Rule, v.Text, v.Ops)
		}
		outcomes := map[history.Outcome]int{}
		for _, o := range r.history.Ops {
			outcomes[o.Outcome]++
		}
		if len(r.history.Faults) == 0 || outcomes[history.OK] == 0 || outcomes[history.Refused] == 0 {
			t.Errorf("the run was too easy: %d faults, outcomes %v", len(r.history.Faults), outcomes)
		}
	})
}

// foundBy says in which workload each planted bug shows, and which checker
// must name it.
var foundBy = map[fake.Bug]struct {
	workload string
	checker  string
	calm     bool // shows only where no answer is lost
}{
	fake.ForgetKeys:       {workload.KeyedSend, "keys", false},
	fake.StuckClaim:       {workload.KeyedSend, "keys", false},
	fake.DoubleLease:      {workload.Lifecycle, "leases", false},
	fake.AckWithoutAppend: {workload.Pipeline, "atomicity", false},
	fake.AppendWithoutAck: {workload.Pipeline, "atomicity", false},
	fake.EarlyAnswer:      {workload.KeyedSend, "messages", false},
	fake.RefuseCommitted:  {workload.KeyedSend, "messages", false},
	fake.SkewedExpiry:     {workload.KeyedSend, "reads", false},
	fake.HalfWindow:       {workload.Window, "keys", true},
	fake.DoubleAppend:     {workload.KeyedSend, "messages", false},
	fake.AckedReturns:     {workload.KeyedSend, "leases", false},
	fake.StaleReads:       {workload.Lifecycle, "reads", false},
	fake.WrongOriginal:    {workload.KeyedSend, "keys", false},
	fake.CountedTwice:     {workload.Lifecycle, "leases", true},
	fake.EarlyWindow:      {workload.KeyedSend, "keys", false},
	fake.KeyDiesWithAck:   {workload.KeyedSend, "keys", false},
	fake.ExpiredAck:       {workload.Lifecycle, "settles", false},
	fake.DelayLost:        {workload.Lifecycle, "leases", false},
	fake.GhostOfOldQueue:  {workload.Window, "messages", false},
	fake.StatsDrift:       {workload.Lifecycle, "reads", false},
	fake.FailedDelivered:  {workload.Lifecycle, "leases", false},
	fake.EarlyExpiry:      {workload.KeyedSend, "leases", false},
	fake.DuplicateWord:    {workload.KeyedSend, "keys", false},
}

// briefly are the bugs that a short test looks for.
var briefly = []fake.Bug{fake.ForgetKeys, fake.DoubleLease, fake.AckWithoutAppend, fake.EarlyAnswer, fake.RefuseCommitted}

func TestPlantedBugsAreFound(t *testing.T) {
	trials := map[string]trial{}
	for _, bug := range fake.Bugs() {
		if testing.Short() && !slices.Contains(briefly, bug) {
			continue
		}
		want, ok := foundBy[bug]
		if !ok {
			t.Fatalf("nobody says which checker finds %s", bug)
		}
		tr := trial{want.workload, bug, 4 * time.Second, roughly, want.checker}
		if want.calm {
			tr.faults = nil
		}
		trials[string(bug)] = tr
	}
	together(t, trials, func(t *testing.T, name string, r result) {
		want := foundBy[fake.Bug(name)]
		found := map[string]int{}
		for _, v := range r.violations {
			found[v.Checker+"/"+v.Rule]++
		}
		if !r.found(want.checker) {
			t.Errorf("not found by the checker %s; found: %v", want.checker, found)
		}
		t.Log(found)
	})
}
