package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// coverageLines is how many ways to go wrong the table has.
const coverageLines = 37

// testDirs says where the packages that the table names live.
var testDirs = map[string]string{
	"fsm": "fsm", "snapshot": "snapshot", "cluster": "cluster", "httpapi": "httpapi",
	"arch": "test/arch", "server": "cmd/spoolraft",
}

// TestCoverageTableIsTrue holds the table in docs/fault-coverage.md against
// the code: what it names exists, and no line is without a name.
func TestCoverageTableIsTrue(t *testing.T) {
	text, err := os.ReadFile("../docs/fault-coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| (.*) \|$`)
	name := regexp.MustCompile("`([^`]+)`")
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) != coverageLines {
		t.Fatalf("the table has %d lines, want %d", len(rows), coverageLines)
	}
	for _, r := range rows {
		names := name.FindAllStringSubmatch(r[2], -1)
		if len(names) == 0 {
			t.Errorf("line %s names nothing", r[1])
		}
		for _, n := range names {
			if !exists(t, n[1]) {
				t.Errorf("line %s names %s, which does not exist", r[1], n[1])
			}
		}
	}
}

// exists reports whether a run of the harness can be made, or a test is there.
func exists(t *testing.T, name string) bool {
	if run, ok := strings.CutPrefix(name, "jepsen "); ok {
		w, faults, _ := strings.Cut(run, " + ")
		return slices.Contains(workload.Names(), w) && nemesis.Known(strings.Split(faults, ",")) == nil
	}
	pkg, test, _ := strings.Cut(name, ".")
	dir, ok := testDirs[pkg]
	if !ok {
		return false
	}
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(source), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
