package examples

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// step is a command of the page and what the page says that it prints.
type step struct{ command, want string }

// steps reads the console blocks: a command behind "$ ", then its output.
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

// TestThePagePrintsWhatItSays runs docs/testing-retries.md.
func TestThePagePrintsWhatItSays(t *testing.T) {
	w := newWorld(t)
	page := steps(t, "../testing-retries.md")
	if len(page) < 8 {
		t.Fatalf("the page has only %d commands", len(page))
	}
	const mark = "--- end of output ---"
	local := strings.NewReplacer("http://127.0.0.1:8080/v1", w.api, "/tmp/", t.TempDir()+"/")
	var script strings.Builder
	for _, s := range page {
		script.WriteString(local.Replace(s.command) + "echo '" + mark + "'\n")
	}
	shell := exec.CommandContext(t.Context(), "bash")
	shell.Dir, shell.Env, shell.Stdin, shell.Stderr = root, w.env, strings.NewReader(script.String()), os.Stderr
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out), mark+"\n")
	for i, s := range page {
		if i >= len(got) || got[i] != s.want {
			t.Errorf("$ %sprints\n%s\nthe page says\n%s", s.command, got[min(i, len(got)-1)], s.want)
		}
	}
}
