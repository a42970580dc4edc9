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
func runFake(t *testing.T, name string, bug fake.Bug, length time.Duration) (*history.History, []checker.Violation) {
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
	names := []string{"kill-leader", "partition"}
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
		h, violations := runFake(t, name, "", 3*time.Second)
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

// foundBy says in which workload each planted bug shows, and which checkers
// must name it.
var foundBy = map[fake.Bug]struct {
	workload string
	checkers []string // one of them
}{
	fake.ForgetKeys:       {workload.KeyedSend, []string{"keys"}},
	fake.StuckClaim:       {workload.KeyedSend, []string{"keys"}},
	fake.DoubleLease:      {workload.Lifecycle, []string{"leases"}},
	fake.AckWithoutAppend: {workload.Pipeline, []string{"atomicity"}},
	fake.AppendWithoutAck: {workload.Pipeline, []string{"atomicity"}},
	fake.EarlyAnswer:      {workload.KeyedSend, []string{"messages"}},
	fake.RefuseCommitted:  {workload.KeyedSend, []string{"messages"}},
	fake.SkewedExpiry:     {workload.KeyedSend, []string{"reads"}},
	fake.HalfWindow:       {workload.Window, []string{"keys"}},
	fake.DoubleAppend:     {workload.KeyedSend, []string{"messages"}},
	fake.AckedReturns:     {workload.KeyedSend, []string{"leases"}},
	fake.StaleReads:       {workload.Lifecycle, []string{"reads"}},
	fake.WrongOriginal:    {workload.KeyedSend, []string{"keys"}},
	fake.CountedTwice:     {workload.Lifecycle, []string{"leases"}},
	fake.EarlyWindow:      {workload.KeyedSend, []string{"keys"}},
	fake.KeyDiesWithAck:   {workload.KeyedSend, []string{"keys"}},
	fake.ExpiredAck:       {workload.Lifecycle, []string{"settles"}},
	fake.DelayLost:        {workload.Lifecycle, []string{"leases"}},
	fake.GhostOfOldQueue:  {workload.Window, []string{"messages"}},
	fake.StatsDrift:       {workload.Lifecycle, []string{"reads"}},
	fake.FailedDelivered:  {workload.Lifecycle, []string{"leases"}},
	fake.EarlyExpiry:      {workload.KeyedSend, []string{"leases"}},
	fake.DuplicateWord:    {workload.KeyedSend, []string{"keys"}},
}

func TestPlantedBugsAreFound(t *testing.T) {
	var names []string
	for _, bug := range fake.Bugs() {
		names = append(names, string(bug))
	}
	together(t, names, func(t *testing.T, name string) {
		want, ok := foundBy[fake.Bug(name)]
		if !ok {
			t.Fatal("nobody says which checker finds it")
		}
		_, violations := runFake(t, want.workload, fake.Bug(name), 4*time.Second)
		found := map[string]int{}
		for _, v := range violations {
			found[v.Checker+"/"+v.Rule]++
		}
		if !slices.ContainsFunc(violations, func(v checker.Violation) bool { return slices.Contains(want.checkers, v.Checker) }) {
			t.Errorf("not found by any of %v; found: %v", want.checkers, found)
		}
		t.Log(found)
	})
}
