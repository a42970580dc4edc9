package mutant

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestBugsFitTheSource: every text that a bug replaces is in the source, once,
// and the source is still Go with the bug in it.
func TestBugsFitTheSource(t *testing.T) {
	root, err := Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Errorf("there are only %d bugs", len(all))
	}
	quick := 0
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			sources, err := m.Sources(root)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range sources {
				if _, err := parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
					t.Error(err)
				}
			}
		})
		if m.Quick {
			quick++
		}
	}
	if quick == 0 {
		t.Error("no bug is quick")
	}
}

func TestParse(t *testing.T) {
	m, err := parse("breaks: x\nrun: --time 1s\nfound by: keys, log\nquick: yes\n\n--- a/b.go\nold 1\nold 2\n+++\nnew\n--- c.go\nold\n+++\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Edits) != 2 || m.Edits[0] != (Edit{"a/b.go", "old 1\nold 2", "new"}) || m.Edits[1] != (Edit{"c.go", "old", ""}) {
		t.Errorf("edits are %q", m.Edits)
	}
	if !m.Quick || len(m.Args) != 2 || len(m.Finder) != 2 || m.Breaks != "x" {
		t.Errorf("read %+v", m)
	}
	for _, text := range []string{"", "breaks: x\n", "odd: x\n--- f\na\n+++\nb\n", "breaks: x\nrun: y\nfound by: z\n--- f\nno end\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestDriftIsNoticed(t *testing.T) {
	root, err := Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]Edit{
		"gone": {"fsm/doc.go", "this text is not there", ""}, "twice": {"fsm/doc.go", "the", ""}, "no file": {"fsm/none.go", "x", ""},
	} {
		if _, err := (Mutant{Name: "m", Edits: []Edit{edit}}).Sources(root); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
