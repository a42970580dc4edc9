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

// runFake makes a short run against the cluster in memory and checks it.
func runFake(t *testing.T, name string, bug fake.Bug, length time.Duration, names ...string) (*history.History, []checker.Violation) {
	t.Helper()
	const seed = 11
	dir := t.TempDir()
	c, err := deploy.NewFake(3, seed, bug)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := workload.New(name)
	if err != nil {
		t.Fatal(err)
	}
	faults, err := nemesis.Find(names, c)
	if err != nil {
		t.Fatal(err)
	}
	err = Run(context.Background(), Config{
		Cluster: c, Workload: w, Faults: faults, Dir: dir, Timeout: 5 * time.Second, Patience: 30 * time.Second,
		Log: func(string, ...any) {},
		Header: history.Header{
			Seed: seed, Workload: name, Faults: names, Deploy: "fake", Plant: string(bug),
			Concurrency: 12, Rate: 300, TimeMs: length.Milliseconds(), EveryMs: 400,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Load(filepath.Join(dir, HistoryFile))
	if err != nil {
		t.Fatal(err)
	}
	return h, checker.Violations(checker.Check(h))
}

// together runs the function for each name, several at a time: a run mostly
// waits.
func together(t *testing.T, names []string, f func(t *testing.T, name string)) {
	room := make(chan struct{}, 8)
	t.Run("all", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				room <- struct{}{}
				defer func() { <-room }()
				f(t, name)
			})
		}
	})
}

func TestCleanRunsPass(t *testing.T) {
	together(t, workload.Names(), func(t *testing.T, name string) {
		h, violations := runFake(t, name, "", 3*time.Second, "kill-leader", "partition")
		for _, v := range violations {
			t.Errorf("%s/%s: %s (%v)", v.Checker, v.Rule, v.Text, v.Ops)
		}
		outcomes := map[history.Outcome]int{}
		for _, o := range h.Ops {
			outcomes[o.Outcome]++
		}
		if len(h.Faults) == 0 || outcomes[history.OK] == 0 || outcomes[history.Refused] == 0 {
			t.Errorf("the run was too easy: %d faults, outcomes %v", len(h.Faults), outcomes)
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
	var names []string
	for _, bug := range fake.Bugs() {
		if testing.Short() && !slices.Contains(briefly, bug) {
			continue
		}
		names = append(names, string(bug))
	}
	together(t, names, func(t *testing.T, name string) {
		want, ok := foundBy[fake.Bug(name)]
		if !ok {
			t.Fatal("nobody says which checker finds it")
		}
		faults := []string{"kill-leader", "partition"}
		if want.calm {
			faults = nil
		}
		_, violations := runFake(t, want.workload, fake.Bug(name), 4*time.Second, faults...)
		found := map[string]int{}
		for _, v := range violations {
			found[v.Checker+"/"+v.Rule]++
		}
		if !slices.ContainsFunc(violations, func(v checker.Violation) bool { return v.Checker == want.checker }) {
			t.Errorf("not found by the checker %s; found: %v", want.checker, found)
		}
		t.Log(found)
	})
}
