package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/spoolraft/spoolraft"

// pkg is what `go list` tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	TestGoFiles, XTestGoFiles,
	CgoFiles, IgnoredGoFiles []string
	Imports, TestImports, XTestImports []string
}

// name is the path below the module.
func (p *pkg) name() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func (p *pkg) top() string {
	top, _, _ := strings.Cut(p.name(), "/")
	return top
}

func list(t *testing.T) []*pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var pkgs []*pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(pkg)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// mayImport says which of our packages each of them may import, beside those
// below itself. Imports go one way, so that each part can be read, tested and
// replaced without the ones above it. The harness judges from outside: what it
// shared with the server, it could not find wrong.
var mayImport = map[string][]string{
	"fsm":      nil,
	"channel":  {"fsm"},
	"snapshot": {"fsm"},
	"cluster":  {"snapshot", "fsm"},
	"httpapi":  {"fsm"},
	"cmd":      {"httpapi", "cluster", "snapshot", "fsm"},
	"jepsen":   nil,
	"test":     nil,
	"docs":     nil, // its examples speak HTTP, as their readers' programs do
}

func TestImportDirections(t *testing.T) {
	for _, p := range list(t) {
		allowed, known := mayImport[p.top()]
		if !known {
			t.Errorf("%s is in no row of mayImport: say what it may import", p.ImportPath)
			continue
		}
		imports := p.Imports
		if p.top() == "jepsen" {
			imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, path := range imports {
			name, ours := strings.CutPrefix(path, module+"/")
			top, _, _ := strings.Cut(name, "/")
			if ours && top != p.top() && !slices.Contains(allowed, top) {
				t.Errorf("%s imports %s; it may import only %v of ours", p.name(), name, allowed)
			}
		}
	}
}

// onlyIn says which module may be imported from where alone, tests apart.
var onlyIn = []struct{ path, top, reason string }{
	{"github.com/hashicorp/", "cluster", "what raft's errors and gossip's events mean is decided in one place"},
	{"go.etcd.io/bbolt", "cluster", "the log is written by raft's stores alone"},
	{"github.com/labstack/", "httpapi", "the router is a detail of the public API"},
	{"github.com/spf13/", "cmd", "a library has no flags"},
	{"github.com/anishathalye/porcupine", "jepsen", "the checkers belong to the harness"},
	{module + "/fsm/model", "", "the model is what tests compare the machine with"},
	{"unsafe", "httpapi", "a payload becomes the string that a command carries without a copy, and nothing else needs it"},
	{"C", "", "the binary is plain, static Go"},
}

func TestWhoImportsWhat(t *testing.T) {
	for _, p := range list(t) {
		for _, path := range p.Imports {
			for _, rule := range onlyIn {
				if matches(path, rule.path) && p.top() != rule.top {
					t.Errorf("%s imports %s, only %q may: %s", p.name(), path, rule.top, rule.reason)
				}
			}
		}
	}
}

// matches reports whether path is the rule's, or begins with it where the rule
// ends in a slash.
func matches(path, rule string) bool {
	return path == rule || strings.HasPrefix(path, strings.TrimSuffix(rule, "/")+"/")
}

// pure is all that the machine may import. It has no clock, no randomness, no
// input or output and no concurrency, so that nodes which apply the same log
// hold the same state. A package is added here only if it has none either; of
// time the machine uses the names of durations, see TestMachineSource.
var pure = []string{
	"cmp", "crypto/hmac", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/hex", "errors", "fmt", "hash/crc32", "iter",
	"maps", "math", "math/bits", "regexp", "slices", "sort", "strconv", "strings", "time", "unicode/utf8",
	"github.com/tidwall/btree",
}

func TestMachineIsPure(t *testing.T) {
	for _, p := range list(t) {
		if p.name() != "fsm" {
			continue
		}
		for _, path := range p.Imports {
			if !slices.Contains(pure, path) {
				t.Errorf("%s imports %s, which is not known to be free of clocks, randomness, input, output and concurrency", p.name(), path)
			}
		}
	}
}

// TestDocs: a reader who opens a folder finds out what lives there.
func TestDocs(t *testing.T) {
	for _, p := range list(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}
