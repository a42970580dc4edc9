package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// Summary is what a run comes down to.
type Summary struct {
	Header  history.Header
	Kinds   []KindCount
	Faults  []FaultCount
	Gap     Gap
	Results []checker.Result
	Ops     int
	Began   time.Duration // when clients and faults began
	Length  time.Duration
}

// KindCount counts the outcomes of one kind of operation.
type KindCount struct {
	Kind                 history.Kind
	OK, Refused, Unknown int
}

// FaultCount counts one kind of fault.
type FaultCount struct {
	Name       string
	Count      int
	Failed     int // could not be injected or healed
	recoveries []time.Duration
}

// Recovery is the time from a fault to the answer of the first new send that
// succeeded: the median over all of its kind, and the longest. ok is false
// where no send followed.
func (f *FaultCount) Recovery() (median, longest time.Duration, ok bool) {
	if len(f.recoveries) == 0 {
		return 0, 0, false
	}
	slices.Sort(f.recoveries)
	return f.recoveries[len(f.recoveries)/2], f.recoveries[len(f.recoveries)-1], true
}

// Gap is the longest time of the run in which no change succeeded.
type Gap struct{ From, To time.Duration }

// Length is how long it was.
func (g Gap) Length() time.Duration { return g.To - g.From }

// Passed reports whether nothing was violated.
func (s *Summary) Passed() bool { return len(s.Violations()) == 0 }

// Violations are those of every checker.
func (s *Summary) Violations() []checker.Violation { return checker.Violations(s.Results) }

// Summarize counts.
func Summarize(h *history.History, results []checker.Result) *Summary {
	s := &Summary{Header: h.Header, Results: results, Ops: len(h.Ops), Gap: longestGap(h)}
	if at, ok := h.PhaseStart(history.PhaseRun); ok {
		s.Began = time.Duration(at)
	}
	kinds := map[history.Kind]*KindCount{}
	for _, o := range h.Ops {
		k := kinds[o.Kind]
		if k == nil {
			k = &KindCount{Kind: o.Kind}
			kinds[o.Kind] = k
		}
		switch o.Outcome {
		case history.OK:
			k.OK++
		case history.Refused:
			k.Refused++
		default:
			k.Unknown++
		}
		s.Length = max(s.Length, time.Duration(o.End))
	}
	for _, k := range kinds {
		s.Kinds = append(s.Kinds, *k)
	}
	slices.SortFunc(s.Kinds, func(a, b KindCount) int { return cmp.Compare(a.Kind, b.Kind) })
	s.countFaults(h)
	return s
}

// countFaults also finds out how soon sends succeeded again.
func (s *Summary) countFaults(h *history.History) {
	var sends []*history.Op // good ones, in order of start
	for _, o := range h.Ops {
		if o.Kind == history.Send && o.Outcome == history.OK {
			sends = append(sends, o)
		}
	}
	soonest := make([]int64, len(sends)) // end among this and all later ones
	for i := len(sends) - 1; i >= 0; i-- {
		soonest[i] = sends[i].End
		if i+1 < len(sends) {
			soonest[i] = min(soonest[i], soonest[i+1])
		}
	}
	for _, f := range h.Faults {
		i := slices.IndexFunc(s.Faults, func(c FaultCount) bool { return c.Name == f.Name })
		if i < 0 {
			i = len(s.Faults)
			s.Faults = append(s.Faults, FaultCount{Name: f.Name})
		}
		s.Faults[i].Count++
		if f.Error != "" {
			s.Faults[i].Failed++
		}
		next, _ := slices.BinarySearchFunc(sends, f.Struck, func(o *history.Op, at int64) int { return cmp.Compare(o.Start, at) })
		if f.Struck > 0 && next < len(sends) {
			s.Faults[i].recoveries = append(s.Faults[i].recoveries, time.Duration(soonest[next]-f.Struck))
		}
	}
}

// isChange reports whether the kind changes something.
func isChange(k history.Kind) bool {
	switch k {
	case history.Inspect, history.QueueGet, history.ReadStats, history.ReadItems:
		return false
	}
	return true
}

// longestGap looks at changes that succeeded while clients were at work.
func longestGap(h *history.History) Gap {
	from, ok := h.PhaseStart(history.PhaseRun)
	if !ok {
		return Gap{}
	}
	to, ok := h.PhaseStart(history.PhaseHeal)
	if !ok {
		to = from
	}
	if worked := from + h.Header.TimeMs*int64(time.Millisecond); h.Header.TimeMs > 0 {
		to = min(to, worked) // healing the last fault can take longer
	}
	var ends []int64
	for _, o := range h.Ops {
		if o.Outcome == history.OK && isChange(o.Kind) && o.End > from && o.End < to {
			ends = append(ends, o.End)
		}
	}
	slices.Sort(ends)
	longest := Gap{time.Duration(from), time.Duration(from)}
	last := from
	for _, end := range append(ends, to) {
		if g := (Gap{time.Duration(last), time.Duration(end)}); g.Length() > longest.Length() {
			longest = g
		}
		last = end
	}
	return longest
}

// Write prints the summary for a terminal.
func (s *Summary) Write(w io.Writer) {
	h := s.Header
	fmt.Fprintf(w, "\n%s, faults %s, %s deployment of %d nodes, seed %d\n", h.Workload, orNone(h.Faults), h.Deploy, len(h.Nodes), h.Seed)
	if h.Plant != "" {
		fmt.Fprintf(w, "planted bug: %s\n", h.Plant)
	}
	fmt.Fprintf(w, "%d operations by %d clients in %v\n\n", s.Ops, h.Concurrency, s.Length.Round(100*time.Millisecond))
	fmt.Fprintf(w, "  %-14s %8s %8s %8s\n", "operation", "ok", "refused", "unknown")
	for _, k := range s.Kinds {
		fmt.Fprintf(w, "  %-14s %8d %8d %8d\n", k.Kind, k.OK, k.Refused, k.Unknown)
	}
	fmt.Fprintln(w)
	for _, f := range s.Faults {
		fmt.Fprintf(w, "  fault %-18s %4d times", f.Name, f.Count)
		if f.Failed > 0 {
			fmt.Fprintf(w, ", %d of them with an error", f.Failed)
		}
		if median, longest, ok := f.Recovery(); ok {
			fmt.Fprintf(w, "; the next send succeeded %v later (median), %v at most", median.Round(time.Millisecond), longest.Round(time.Millisecond))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  longest time without a change: %v, from %v on\n\n", s.Gap.Length().Round(time.Millisecond), s.Gap.From.Round(time.Millisecond))
	for _, r := range s.Results {
		fmt.Fprintf(w, "  %-14s %8d %s", r.Checker, r.Checked, r.What)
		if n := len(r.Violations); n > 0 {
			fmt.Fprintf(w, ", %d VIOLATIONS", n)
		}
		if r.Note != "" {
			fmt.Fprintf(w, " (%s)", r.Note)
		}
		fmt.Fprintln(w)
	}
	s.writeVerdict(w)
}

// shownViolations is how many a terminal shows; the page has them all.
const shownViolations = 5

func (s *Summary) writeVerdict(w io.Writer) {
	violations := s.Violations()
	if len(violations) == 0 {
		fmt.Fprint(w, "\nPASSED: no violation.\n")
		return
	}
	fmt.Fprintf(w, "\nFAILED: %d violations. The first:\n", len(violations))
	for _, v := range violations[:min(len(violations), shownViolations)] {
		fmt.Fprintf(w, "  %s/%s: %s", v.Checker, v.Rule, v.Text)
		if len(v.Ops) > 0 {
			fmt.Fprintf(w, " (operations %s)", numbers(v.Ops))
		}
		fmt.Fprintln(w)
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func numbers(ids []int64) string {
	var parts []string
	for _, id := range ids {
		parts = append(parts, fmt.Sprint(id))
	}
	return strings.Join(parts, ", ")
}
