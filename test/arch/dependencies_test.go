package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDependenciesAreDocumented: each module that our code or our tests import
// is in docs/dependencies.md, with the version that go.mod pins. Its reason
// and its traps are what the next person needs before changing it.
func TestDependenciesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for path, version := range directModules(t) {
		if row := fmt.Sprintf("| `%s` | %s |", path, version); !strings.Contains(page, row) {
			t.Errorf("docs/dependencies.md has no row that starts with %s", row)
		}
	}
}

// directModules are the modules of packages that ours import, with versions.
func directModules(t *testing.T) map[string]string {
	t.Helper()
	direct := map[string]bool{}
	for _, p := range list(t) {
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, path := range imports {
				if strings.Contains(path, ".") && !strings.HasPrefix(path, module) {
					direct[path] = true
				}
			}
		}
	}
	args := []string{"list", "-json=Module"}
	for path := range direct {
		args = append(args, path)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Module struct{ Path, Version string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return modules
		} else if err != nil {
			t.Fatal(err)
		}
		modules[p.Module.Path] = p.Module.Version
	}
}
