package readme

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step is a command of the README and what the README says that it prints.
type step struct {
	command, want string
}

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

func TestTheTourPrintsWhatTheREADMESays(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the binary")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tour := steps(t, filepath.Join(root, "README.md"))
	if len(tour) < 8 {
		t.Fatalf("the README has only %d commands", len(tour))
	}
	api := startDev(t, root)
	const mark = "--- end of output ---"
	var script strings.Builder
	for _, s := range tour {
		script.WriteString(strings.Replace(s.command, "http://127.0.0.1:8080", api, 1))
		script.WriteString("echo '" + mark + "'\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash")
	shell.Stdin = strings.NewReader(script.String())
	shell.Stderr = os.Stderr
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out), mark+"\n")
	for i, s := range tour {
		if i >= len(got) || got[i] != s.want {
			t.Errorf("$ %sprints %q, the README says %q", s.command, got[min(i, len(got)-1)], s.want)
		}
	}
}

// startDev builds and starts the binary and returns its address once it is
// ready.
func startDev(t *testing.T, root string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "spoolraft")
	build := exec.Command("go", "build", "-o", binary, "./cmd/spoolraft")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	dev := exec.Command(binary, "dev", "--listen", address)
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	dev.Stderr = os.Stderr
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dev.Process.Signal(os.Interrupt)
		dev.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "is ready") {
			go func() {
				for lines.Scan() {
				}
			}()
			return "http://" + address
		}
	}
	t.Fatal("dev ended before it was ready")
	return ""
}
