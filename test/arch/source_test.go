package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxLines keeps a file readable in one sitting.
const maxLines = 600

func files(p *pkg) []string {
	return slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles)
}

func TestFilesAreShort(t *testing.T) {
	for _, p := range list(t) {
		for _, name := range files(p) {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(data, []byte("\n")); n > maxLines {
				t.Errorf("%s/%s has %d lines, more than %d: split it by subject", p.name(), name, n, maxLines)
			}
		}
	}
}

// durations is what the machine may take from package time.
var durations = []string{"Duration", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}

// TestMachineSource: what the imports cannot tell of the machine. A goroutine
// or a select would let the scheduler decide about
// replicated state, a clock would let the node.
func TestMachineSource(t *testing.T) {
	for _, p := range list(t) {
		if p.name() != "fsm" {
			continue
		}
		for _, name := range p.GoFiles {
			set, file := parse(t, p, name)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
					t.Errorf("%s: goroutines, channels and selects have no place in the machine", set.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(durations, n.Sel.Name) {
						t.Errorf("%s: time.%s: the machine's only clock is the time of a batch", set.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestNothingIsLeftOpen: unfinished work belongs into an issue, where it is
// seen.
func TestNothingIsLeftOpen(t *testing.T) {
	for _, p := range list(t) {
		for _, name := range p.GoFiles {
			set, file := parse(t, p, name)
			for _, group := range file.Comments {
				for _, word := range []string{"TODO", "FIXME", "XXX"} {
					if strings.Contains(group.Text(), word) {
						t.Errorf("%s: a comment says %s", set.Position(group.Pos()), word)
					}
				}
			}
		}
	}
}

func parse(t *testing.T, p *pkg, name string) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, file
}
