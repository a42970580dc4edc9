package checker

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// Violation is something that no correct cluster does.
type Violation struct {
	Checker string  `json:"checker"`
	Rule    string  `json:"rule"`
	Text    string  `json:"text"`
	Ops     []int64 `json:"ops"` // that show it, in order
	// At is when the last of what shows it happened, 0 where that was after the
	// run.
	At int64 `json:"at"`
}

// Result is what one checker found.
type Result struct {
	Checker    string      `json:"checker"`
	Checked    int         `json:"checked"` // messages, keys, leases, ...
	What       string      `json:"what"`    // was counted
	Note       string      `json:"note,omitempty"`
	Violations []Violation `json:"violations"`
}

// maxViolations bounds what one checker reports: the first show enough.
const maxViolations = 20

// report collects one checker's findings.
type report struct {
	Result
	more int
}

func (r *report) add(rule, text string, ops ...*history.Op) {
	if len(r.Violations) >= maxViolations {
		r.more++
		return
	}
	v := Violation{Checker: r.Checker, Rule: rule, Text: text}
	for _, o := range ops {
		if o != nil && !slices.Contains(v.Ops, o.ID) {
			v.Ops = append(v.Ops, o.ID)
			v.At = max(v.At, o.End)
		}
	}
	slices.Sort(v.Ops)
	r.Violations = append(r.Violations, v)
}

// Check runs every checker.
func Check(h *history.History) []Result {
	x := newIndex(h)
	checkers := []struct {
		name, what string
		check      func(*index, *report)
	}{
		{"health", "phases", checkHealth},
		{"messages", "messages", checkMessages},
		{"keys", "keys", checkKeys},
		{"leases", "leases", checkLeases},
		{"settles", "settles", checkSettles},
		{"atomicity", "ack-and-sends", checkAtomicity},
		{"answers", "operations", checkAnswers},
		{"reads", "reads", checkReads},
		{"linearizable", "operations", checkLinearizable},
		{"hashes", "comparisons", checkHashes},
		{"log", "sends", checkLog},
	}
	var results []Result
	for _, c := range checkers {
		r := &report{Result: Result{Checker: c.name, What: c.what}}
		c.check(x, r)
		results = append(results, r.Result)
	}
	return results
}

// Violations gathers those of all results, the first operation first.
func Violations(results []Result) []Violation {
	var all []Violation
	for _, r := range results {
		all = append(all, r.Violations...)
	}
	slices.SortStableFunc(all, func(a, b Violation) int {
		return cmp.Compare(slices.Max(append(a.Ops, 0)), slices.Max(append(b.Ops, 0)))
	})
	return all
}

// checkHealth: the cluster came back after the last fault, and the harness
// could finish its work.
func checkHealth(x *index, r *report) {
	steps := []struct{ before, after, rule, text string }{
		{history.PhaseHeal, history.PhaseRetry, "not-well-again", "after the last fault was healed, not every node became ready"},
		{history.PhaseRetry, history.PhaseRead, "keys-stay-open", "after the last fault was healed, not every open key got a definite answer"},
		{history.PhaseDrain, history.PhaseEnd, "not-drained", "the queues could not be emptied by receiving and acking"},
	}
	for _, s := range steps {
		_, begun := x.h.PhaseStart(s.before)
		if !begun {
			continue
		}
		r.Checked++
		if _, done := x.h.PhaseStart(s.after); !done {
			var last *history.Op
			if n := len(x.h.Ops); n > 0 {
				last = x.h.Ops[n-1]
			}
			r.add(s.rule, s.text, last)
		}
	}
	for _, f := range x.h.Faults {
		switch {
		case f.Name == FaultPanic:
			r.add("crashed", f.Target+" crashed: "+f.Detail)
		case f.Name == FaultExit && !mayExit(x.h.Header.Faults):
			r.add("exited", f.Target+" ended by itself: "+f.Detail)
		}
	}
}

// mayExit reports whether the run had faults at which a node is right to end.
func mayExit(faults []string) bool {
	return slices.ContainsFunc(faults, func(name string) bool {
		return strings.HasPrefix(name, "bitflip-") || strings.HasSuffix(name, "-fsync") ||
			strings.HasPrefix(name, "power-") || name == "disk-full" || name == "wipe"
	})
}

// The names under which a run records what nodes did by themselves.
const (
	FaultPanic = "node-crash" // its log has a panic or a data race
	FaultExit  = "node-exit"  // it ended, and was started again
)
