package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"seconds": func(ns int64) string { return fmt.Sprintf("%.3f s", time.Duration(ns).Seconds()) },
	"join":    func(names []string) string { return orNone(names) },
}).Parse(pageText))

// timelineOps is how many operations the timeline shows at most.
const timelineOps = 40_000

// page is what the template gets.
type page struct {
	*Summary
	Shown    []shownViolation
	Timeline timeline
	AllFault []history.Fault
}

// shownViolation is a violation with its operations and the faults around.
type shownViolation struct {
	checker.Violation
	Ops    []*history.Op
	Bars   []bar
	Faults []bar
}

// bar is something on a small timeline, in hundredths of its width.
type bar struct {
	Label       string
	Class       string
	Left, Width float64
}

// timeline is the data of the large timeline, packed: each operation is
// client, kind, start and end in microseconds, outcome and number.
type timeline struct {
	Kinds   []string   `json:"kinds"`
	Clients []int      `json:"clients"`
	Ops     [][6]int64 `json:"ops"`
	Faults  []mark     `json:"faults"`
	Phases  []mark     `json:"phases"`
	Marked  []int64    `json:"marked"` // operations of violations
	Left    int        `json:"left"`   // operations that are not shown
}

// mark is a named time or span, in microseconds.
type mark struct {
	Name   string `json:"name"`
	Detail string `json:"detail,omitempty"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
}

// WritePage writes the page of a run.
func WritePage(w io.Writer, h *history.History, s *Summary) error {
	p := page{Summary: s, Timeline: newTimeline(h, s.Violations()), AllFault: h.Faults}
	for _, v := range s.Violations() {
		p.Shown = append(p.Shown, newShown(h, v))
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// newTimeline packs the operations. Of a long history it leaves out good ones
// first, evenly.
func newTimeline(h *history.History, violations []checker.Violation) timeline {
	t := timeline{Ops: [][6]int64{}, Faults: []mark{}, Phases: []mark{}, Marked: []int64{}}
	for _, v := range violations {
		t.Marked = append(t.Marked, v.Ops...)
	}
	slices.Sort(t.Marked)
	t.Marked = slices.Compact(t.Marked)
	stride := len(h.Ops)/timelineOps + 1
	kinds := map[history.Kind]int64{}
	clients := map[int]bool{}
	for i, o := range h.Ops {
		_, marked := slices.BinarySearch(t.Marked, o.ID)
		if i%stride != 0 && !marked && (o.Outcome == history.OK || stride > 10) {
			t.Left++
			continue
		}
		if _, ok := kinds[o.Kind]; !ok {
			kinds[o.Kind] = int64(len(t.Kinds))
			t.Kinds = append(t.Kinds, string(o.Kind))
		}
		clients[o.Client] = true
		t.Ops = append(t.Ops, [6]int64{int64(o.Client), kinds[o.Kind], o.Start / 1000, o.End / 1000, outcomeNumber(o.Outcome), o.ID})
	}
	for c := range clients {
		t.Clients = append(t.Clients, c)
	}
	slices.Sort(t.Clients)
	for _, f := range h.Faults {
		t.Faults = append(t.Faults, mark{f.Name + " " + f.Target, f.Detail, f.Start / 1000, f.End / 1000})
	}
	for _, p := range h.Phases {
		t.Phases = append(t.Phases, mark{Name: p.Name, Start: p.At / 1000, End: p.At / 1000})
	}
	return t
}

func outcomeNumber(o history.Outcome) int64 {
	return int64(slices.Index([]history.Outcome{history.OK, history.Refused, history.Unknown}, o))
}

// newShown gathers the operations of a violation, and the faults that were
// active between the first and the last.
func newShown(h *history.History, v checker.Violation) shownViolation {
	s := shownViolation{Violation: v}
	for _, id := range v.Ops {
		if o := h.Op(id); o != nil {
			s.Ops = append(s.Ops, o)
		}
	}
	if len(s.Ops) == 0 {
		return s
	}
	from, to := s.Ops[0].Start, s.Ops[0].End
	for _, o := range s.Ops {
		from, to = min(from, o.Start), max(to, o.End)
	}
	scale := func(label, class string, start, end int64) bar {
		start, end = max(start, from), min(end, to)
		width := float64(max(to-from, 1))
		return bar{label, class, 100 * float64(start-from) / width, max(0.4, 100*float64(end-start)/width)}
	}
	for _, o := range s.Ops {
		label := fmt.Sprintf("%d %s at %s: %s", o.ID, o.Kind, o.Node, answerText(o))
		s.Bars = append(s.Bars, scale(label, string(o.Outcome), o.Start, o.End))
	}
	for _, f := range h.Faults {
		if f.Start < to && f.End > from {
			s.Faults = append(s.Faults, scale(strings.TrimSpace(f.Name+" "+f.Target), "fault", f.Start, f.End))
		}
	}
	return s
}

// answerText is an outcome in a few words.
func answerText(o *history.Op) string {
	if o.Status == 0 {
		return string(o.Outcome)
	}
	text := fmt.Sprint(o.Status)
	if o.ErrorKind != "" {
		text += " " + o.ErrorKind
	}
	if o.MessageID != "" {
		text += " " + o.MessageID
	}
	return text
}
