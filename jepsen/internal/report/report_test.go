package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

func sample() *history.History {
	second := int64(time.Second)
	h := &history.History{
		Header: history.Header{Workload: "keyed-send", Faults: []string{"kill"}, Nodes: []string{"n1"}, Seed: 7, StartedAt: time.Unix(0, 0).UTC()},
		Faults: []history.Fault{{Name: "kill", Target: "n1", Start: 1 * second, Struck: 2 * second, End: 4 * second}},
		Phases: []history.Phase{{Name: history.PhaseRun, At: 0}, {Name: history.PhaseHeal, At: 10 * second}},
	}
	for i, o := range []history.Op{
		{Kind: history.Send, Key: `<script>alert(1)</script>`, Start: 1 * second, End: 2 * second, Outcome: history.OK, Status: 201, MessageID: "1-1"},
		{Kind: history.Send, Start: 3 * second, End: 4 * second, Outcome: history.Unknown, Error: "EOF"},
		{Kind: history.Send, Start: 3 * second, End: 4 * second, Outcome: history.Refused, Status: 503},
		{Kind: history.ReadStats, Start: 5 * second, End: 6 * second, Outcome: history.OK, Status: 200},
		{Kind: history.Send, Start: 8 * second, End: 9 * second, Outcome: history.OK, Status: 201, MessageID: "1-2"},
	} {
		o.ID = int64(i + 1)
		h.Ops = append(h.Ops, &o)
	}
	return h
}

var failed = []checker.Result{{
	Checker: "keys", What: "keys", Checked: 1,
	Violations: []checker.Violation{{Checker: "keys", Rule: "appended-twice", Text: "one key, two messages", Ops: []int64{1, 5}}},
}}

func TestSummary(t *testing.T) {
	s := Summarize(sample(), failed)
	if s.Passed() || s.Gap.From != 2*time.Second || s.Gap.To != 9*time.Second {
		t.Errorf("passed %v, gap %+v", s.Passed(), s.Gap)
	}
	var text bytes.Buffer
	s.Write(&text)
	for _, want := range []string{
		`send +2 +1 +1\n`, `fault kill +1 times; the next send succeeded 7s later \(median\), 7s at most`, `longest time without a change: 7s`, `seed 7`,
		`FAILED: 1 violations`, `keys/appended-twice: one key, two messages \(operations 1, 5\)`,
	} {
		if !regexp.MustCompile(want).Match(text.Bytes()) {
			t.Errorf("no %s in:\n%s", want, text.String())
		}
	}
	text.Reset()
	s = Summarize(sample(), nil)
	s.Write(&text)
	if !s.Passed() || !strings.Contains(text.String(), "PASSED") {
		t.Errorf("a run without violations: %s", text.String())
	}
}

func TestPage(t *testing.T) {
	var page bytes.Buffer
	h := sample()
	if err := WritePage(&page, h, Summarize(h, failed)); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if m := regexp.MustCompile(`(?i)(src|href)\s*=|url\(|https?://|@import`).FindString(text); m != "" {
		t.Errorf("the page asks for something: %q", m)
	}
	if strings.Contains(text, "<script>alert") {
		t.Error("a key is not escaped")
	}
	for _, want := range []string{"one key, two messages", "prefers-color-scheme: dark", `"marked":[1,5]`, "kill n1", "&lt;script&gt;alert"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the page", want)
		}
	}
}

func TestTimelineOfALongHistoryKeepsWhatMatters(t *testing.T) {
	h := &history.History{}
	for i := range 3 * timelineOps {
		o := &history.Op{ID: int64(i + 1), Kind: history.Send, Outcome: history.OK}
		if i%1000 == 999 {
			o.Outcome = history.Unknown
		}
		h.Ops = append(h.Ops, o)
	}
	line := newTimeline(h, []checker.Violation{{Ops: []int64{2, 3}}})
	unknown, marked := 0, 0
	for _, o := range line.Ops {
		if o[4] == 2 {
			unknown++
		}
		if o[5] == 2 || o[5] == 3 {
			marked++
		}
	}
	if len(line.Ops) > timelineOps+timelineOps/10 || line.Left+len(line.Ops) != len(h.Ops) || unknown != 3*timelineOps/1000 || marked != 2 {
		t.Errorf("%d shown, %d left out, %d unknown, %d marked", len(line.Ops), line.Left, unknown, marked)
	}
}

func TestViolationWithoutOperationsIsShown(t *testing.T) {
	h := sample()
	var page bytes.Buffer
	s := Summarize(h, []checker.Result{{Checker: "health", Violations: []checker.Violation{{Checker: "health", Rule: "crashed", Text: "n1 crashed"}}}})
	if err := WritePage(&page, h, s); err != nil || !strings.Contains(page.String(), "n1 crashed") {
		t.Errorf("error %v", err)
	}
}
