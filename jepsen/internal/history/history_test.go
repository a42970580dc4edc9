package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWrittenHistoryReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	rec, err := Create(path, Header{Seed: 7, Workload: "keyed-send", Nodes: []string{"n1"}})
	if err != nil {
		t.Fatal(err)
	}
	rec.Phase(PhaseRun)
	first := &Op{Kind: Send, Queue: "q", Key: "k", Outcome: OK, Lease: "secret-lease", Handle: "secret-handle"}
	second := &Op{Kind: Recv, Queue: "q", Outcome: Unknown}
	rec.Begin(first)
	rec.Begin(second)
	rec.End(second) // ends out of order
	rec.End(first)
	rec.Fault(Fault{Name: "kill", Target: "n1", Start: 1, End: 2})
	rec.Digest(Digest{Node: "n1", Index: 256, Hash: "0123456789abcdef"})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}

	h, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if h.Header.Seed != 7 || h.Header.Format != Format || h.Header.StartedAt.IsZero() {
		t.Errorf("header is %+v", h.Header)
	}
	if len(h.Ops) != 2 || h.Ops[0].ID != 1 || h.Ops[1].ID != 2 || len(h.Faults) != 1 || len(h.Phases) != 1 {
		t.Fatalf("read %d ops, %d faults, %d phases", len(h.Ops), len(h.Faults), len(h.Phases))
	}
	if len(h.Digests) != 1 || h.Digests[0].Index != 256 || h.Digests[0].At == 0 {
		t.Errorf("digests are %+v", h.Digests)
	}
	if h.Op(2).Kind != Recv || h.Op(3) != nil {
		t.Error("operations are not found by number")
	}
	if _, ok := h.PhaseStart(PhaseRun); !ok {
		t.Error("the run phase is missing")
	}
	if _, ok := h.PhaseStart(PhaseDrain); ok {
		t.Error("a drain phase appeared")
	}
	text, _ := os.ReadFile(path)
	if strings.Contains(string(text), "secret") {
		t.Error("a token was written")
	}
}

func TestReadRefusesDamage(t *testing.T) {
	header := `{"header":{"format":1}}` + "\n"
	for name, c := range map[string]struct {
		text string
		ok   bool
		ops  int
	}{
		"whole":           {header + `{"op":{"id":1}}` + "\n", true, 1},
		"last line cut":   {header + `{"op":{"id":1}}` + "\n" + `{"op":{"i`, true, 1},
		"damaged inside":  {header + `{"op":{"i` + "\n" + `{"op":{"id":1}}` + "\n", false, 0},
		"no header":       {`{"op":{"id":1}}` + "\n", false, 0},
		"second header":   {header + header, false, 0},
		"foreign version": {`{"header":{"format":99}}` + "\n", false, 0},
		"empty":           {"", false, 0},
	} {
		h, err := Read(strings.NewReader(c.text))
		if (err == nil) != c.ok {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		if c.ok && len(h.Ops) != c.ops {
			t.Errorf("%s: read %d ops, want %d", name, len(h.Ops), c.ops)
		}
	}
}

func TestNumbersRiseWithStart(t *testing.T) {
	rec, err := Create(filepath.Join(t.TempDir(), "h"), Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	done := make(chan []*Op)
	for range 4 {
		go func() {
			var ops []*Op
			for range 200 {
				o := &Op{}
				rec.Begin(o)
				ops = append(ops, o)
			}
			done <- ops
		}()
	}
	starts := make([]int64, 801)
	for range 4 {
		for _, o := range <-done {
			starts[o.ID] = o.Start
		}
	}
	for id := 2; id <= 800; id++ {
		if starts[id] < starts[id-1] {
			t.Fatalf("op %d began %v before op %d", id, time.Duration(starts[id-1]-starts[id]), id-1)
		}
	}
}
