package operations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is a command of the page and what the page says that it prints.
type step struct{ command, want string }

// steps reads the console blocks of a page: a command behind "$ ", then its
// output.
func steps(t *testing.T, page string) []step {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []step
	inside := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case inside && strings.HasPrefix(line, "$ "):
			all = append(all, step{command: strings.TrimPrefix(line, "$ ")})
		case inside:
			all[len(all)-1].want += line
		}
	}
	return all
}

// pattern is what a command has to print. Three dots stand for anything in a line,
// and in a line of their own for any lines.
func pattern(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(want) {
		if strings.TrimSpace(line) == "..." {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, "\n")), `\.\.\.`, `.*`) + `\n`)
	}
	return regexp.MustCompile(b.String() + `\z`)
}

// limit is how long the page may take.
const limit = 5 * time.Minute

func TestThePagePrintsWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page := steps(t, filepath.Join(root, "docs", "operations.md"))
	if len(page) < 25 {
		t.Fatalf("the page has only %d commands", len(page))
	}
	work, bin := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "spoolraft"), "./cmd/spoolraft")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ports := otherPorts(t, "127.0.0.1:808", "127.0.0.1:700", "127.0.0.1:794")
	const mark = "--- end of output ---"
	var script strings.Builder
	script.WriteString("trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n")
	for _, s := range page {
		script.WriteString(ports.Replace(s.command) + "echo '" + mark + "'\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash")
	shell.Cancel = func() error { return shell.Process.Signal(os.Interrupt) } // it ends its nodes
	shell.Dir, shell.Stdin, shell.Stderr = work, strings.NewReader(script.String()), os.Stderr
	shell.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := shell.Output()
	if err != nil {
		t.Error(err)
	}
	got := strings.Split(string(out), mark+"\n")
	for i, s := range page {
		if want := ports.Replace(s.want); i >= len(got)-1 || !pattern(want).MatchString(got[i]) {
			t.Errorf("$ %sprints\n%s\nthe page says\n%s", s.command, got[min(i, len(got)-1)], want)
		}
	}
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(work, "data", "*.log")) // the pattern is good
		for _, path := range logs {
			text, _ := os.ReadFile(path)
			t.Logf("%s\n%s", path, text[max(0, len(text)-4<<10):])
		}
	}
}

// otherPorts replaces the first digits of ports by those of ports that nothing
// uses, from below those that the kernel gives to outgoing connections.
func otherPorts(t *testing.T, prefixes ...string) *strings.Replacer {
	t.Helper()
	var pairs []string
	taken := map[int]bool{}
	for _, prefix := range prefixes {
		first := 0
		for try := 0; first == 0 && try < 1000; try++ {
			if decade := 1600 + rand.IntN(1300); !taken[decade] && free(decade*10) {
				first, taken[decade] = decade, true
			}
		}
		if first == 0 {
			t.Fatal("no ports are free")
		}
		pairs = append(pairs, prefix, fmt.Sprintf("127.0.0.1:%d", first))
	}
	return strings.NewReplacer(pairs...)
}

// free reports whether nothing uses the ten ports from the first on.
func free(first int) bool {
	for port := first; port < first+10; port++ {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			return false
		}
		l.Close()
		u, err := net.ListenPacket("udp", address)
		if err != nil {
			return false
		}
		u.Close()
	}
	return true
}
