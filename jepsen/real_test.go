package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/fusefs"
	"github.com/spoolraft/spoolraft/jepsen/internal/mutant"
	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/report"
)

// brief are short runs on real processes in which nothing may be violated.
var brief = map[string]string{
	"mixed":      "--workload mixed --faults kill-leader,pause --time 15s --every 2s --seed 101 --patience 3m",
	"keyed-send": "--workload keyed-send --faults power-all --time 15s --every 4s --seed 102 --patience 3m",
	"lifecycle":  "--workload lifecycle --faults partition-leader --time 15s --every 3s --seed 103 --patience 3m",
}

// atOnce is how many runs are made at a time: a run mostly waits.
const atOnce = 3

// TestRealServer makes the brief runs, and plants the quick bugs in the server,
// each of which has to be found.
func TestRealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds servers and starts processes")
	}
	t.Chdir("..") // where the server can be built
	dir := t.TempDir()
	binary := filepath.Join(dir, "spoolraft")
	if err := buildServer(t.Context(), binary); err != nil {
		t.Fatal(err)
	}
	p, err := parsePlanted([]string{"--quick", "--out", dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	room := make(chan struct{}, atOnce)
	begin := func(run func()) (done chan struct{}) {
		done = make(chan struct{})
		go func() {
			room <- struct{}{}
			defer func() { <-room; close(done) }()
			run()
		}()
		return done
	}
	clean, found := map[string]*cleanRun{}, make([]finding, len(p.bugs))
	waits := map[string]chan struct{}{}
	for name, args := range brief {
		r := &cleanRun{args: append(strings.Fields(args), "--binary", binary, "--out", filepath.Join(dir, "clean-"+name))}
		clean[name] = r
		waits[name] = begin(func() { r.run(t) })
	}
	for i, m := range p.bugs {
		waits[m.Name] = begin(func() {
			var err error
			if found[i], err = p.look(t.Context(), m); err != nil {
				found[i].problem = err
			}
		})
	}
	for name, r := range clean {
		t.Run("clean "+name, func(t *testing.T) { <-waits[name]; r.judge(t) })
	}
	for i, m := range p.bugs {
		t.Run(m.Name, func(t *testing.T) {
			<-waits[m.Name]
			if found[i].by == nil {
				t.Errorf("%s: %s; found something: %v", m.Breaks, found[i].verdict(), found[i].others)
			}
			t.Log(found[i].verdict())
		})
	}
}

// cleanRun is a run of the server as it is.
type cleanRun struct {
	args    []string
	log     bytes.Buffer
	summary *report.Summary
	skip    error
	err     error
}

func (r *cleanRun) run(t *testing.T) {
	o, err := parse(r.args, io.Discard)
	if err != nil {
		r.err = err
		return
	}
	if nemesis.NeedsDisks(o.faultNames()) {
		if r.skip = fusefs.Available(); r.skip != nil {
			return
		}
	}
	r.summary, r.err = o.execute(t.Context(), &r.log)
}

// judge demands that nothing was violated, and that there was something to see.
func (r *cleanRun) judge(t *testing.T) {
	if r.skip != nil {
		t.Skip(r.skip)
	}
	if r.err != nil || !r.summary.Passed() {
		t.Fatalf("%v\n%s", r.err, r.log.Bytes())
	}
	if len(r.summary.Faults) == 0 {
		t.Error("no fault was injected")
	}
	for _, c := range r.summary.Results {
		if c.Checked == 0 && (c.Checker == "log" || c.Checker == "hashes" || c.Checker == "messages") {
			t.Errorf("the checker %s had nothing to look at: %s", c.Checker, c.Note)
		}
	}
}

func TestPlantedUsage(t *testing.T) {
	for args, says := range map[string]string{
		"planted --help": "-only", "planted --only fly": `no bug "fly"`, "planted --tries 0": "--tries", "planted fly": "no arguments",
	} {
		code, out, errOut := jepsen(strings.Fields(args)...)
		if want := map[bool]int{true: exitPassed, false: exitUsage}[strings.Contains(args, "help")]; code != want || !strings.Contains(out+errOut, says) {
			t.Errorf("%s: exit %d, %q %q", args, code, out, errOut)
		}
	}
}

// TestBugsHaveGoodRuns: the flags of each bug's run are flags of run.
func TestBugsHaveGoodRuns(t *testing.T) {
	all, err := mutant.All()
	if err != nil {
		t.Fatal(err)
	}
	p := &planted{out: t.TempDir()}
	for _, m := range all {
		o, err := p.options(m, 0)
		if err != nil {
			t.Error(err)
		} else if o.duration > 30e9 || o.plant != m.Name || o.seed == 0 {
			t.Errorf("the run of %s takes %v and plants %q", m.Name, o.duration, o.plant)
		}
	}
}

func resultsOf(name, rule string, at int64) []checker.Result {
	return []checker.Result{{Checker: name, Violations: []checker.Violation{{Checker: name, Rule: rule, At: at}}}}
}

// TestFindingsTellFoundFromNot judges a summary made by hand.
func TestFindingsTellFoundFromNot(t *testing.T) {
	f := finding{bug: mutant.Mutant{Name: "bug", Finder: []string{"keys"}}}
	s := &report.Summary{Began: 2e9, Length: 9e9, Results: resultsOf("leases", "x", 3e9)}
	f.judge(s)
	if f.by != nil || len(f.others) != 1 || f.verdict() != "NOT FOUND" {
		t.Errorf("found by another: %+v", f)
	}
	s.Results = resultsOf("keys", "late", 0)
	f.judge(s)
	s.Results = resultsOf("keys", "appended-twice", 5e9)
	f.judge(s)
	if f.by == nil || f.by.Rule != "appended-twice" || f.after != 3e9 || !strings.Contains(f.verdict(), "3.0 s") {
		t.Errorf("found: %+v, %s", f, f.verdict())
	}
	var out bytes.Buffer
	if err := writeFindings([]finding{f, {bug: mutant.Mutant{Name: "other"}}}, &out); err != nil || !strings.Contains(out.String(), "NOT FOUND") {
		t.Errorf("%v, table:\n%s", err, out.String())
	}
}
