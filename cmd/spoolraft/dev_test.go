package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// devStarted launches dev and returns once it has said what there is.
func devStarted(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...)
	eventually(t, "dev is ready", func() (bool, string) {
		if !p.running() {
			t.Fatalf("dev ended: %s", p.stderr)
		}
		return strings.Contains(p.stdout.String(), "stored once"), p.stdout.String()
	})
	return p
}

var (
	exportLine = regexp.MustCompile(`(?m)^  export (SPOOLER_\w+=\S+)$`)
	curlLine   = regexp.MustCompile(`(?m)^  (curl .*)$`)
	nodeLine   = regexp.MustCompile(`(?m)^  (http://\S+)$`)
)

// TestDev pastes what dev prints, and uses its exports with the commands.
func TestDev(t *testing.T) {
	needsProcesses(t)
	for _, nodes := range []string{"1", "3"} {
		t.Run(nodes, func(t *testing.T) {
			tmp := t.TempDir()
			p := devStarted(t, []string{"TMPDIR=" + tmp}, "--nodes", nodes)
			var env []string
			for _, m := range exportLine.FindAllStringSubmatch(p.stdout.String(), -1) {
				env = append(env, m[1])
			}
			if len(env) != 2 {
				t.Fatalf("exports are %q", env)
			}
			pasteCurl(t, p.stdout.String(), env)
			if r := runCLI(t, env, "queue", "create", "jobs", "--dedup-window", "1h"); r.code != 0 {
				t.Fatalf("queue create: %+v", r)
			}
			if r := runCLI(t, env, "send", "jobs", "hello", "--dedup-key", "k"); r.code != 0 || !strings.Contains(r.stdout, "sent") {
				t.Errorf("send: %+v", r)
			}
			if r := runCLI(t, env, "send", "jobs", "hello", "--dedup-key", "k"); r.code != 0 || !strings.Contains(r.stdout, "already there") {
				t.Errorf("send again: %+v", r)
			}
			if r := runCLI(t, env, "recv", "jobs", "--ack", "--raw"); r.code != 0 || r.stdout != "hello" {
				t.Errorf("recv: %+v", r)
			}
			if r := runCLI(t, env, "recv", "jobs", "--wait", "0"); r.code != 3 {
				t.Errorf("recv of nothing: %+v", r)
			}
			if r := runCLI(t, env, "send", "nowhere", "x"); r.code != 4 {
				t.Errorf("send to no queue: %+v", r)
			}
			if code := p.signal(syscall.SIGINT); code != 0 {
				t.Errorf("dev ended with code %d", code)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("dev left %v behind (%v)", left, err)
			}
		})
	}
}

// pasteCurl runs the printed lines: create, send, and the same send again.
func pasteCurl(t *testing.T, printed string, env []string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Log("there is no curl here to paste the printed lines for")
		return
	}
	found := curlLine.FindAllStringSubmatch(printed, -1)
	want := []string{`"name":"orders"`, "HTTP/1.1 201", "HTTP/1.1 200"}
	if len(found) != len(want) {
		t.Fatalf("%d curl lines, want %d", len(found), len(want))
	}
	id := regexp.MustCompile(`(?i)Spooler-Message-Id: (\S+)`)
	ids := map[string]bool{}
	for i, m := range found {
		cmd := exec.Command("sh", "-c", m[1])
		cmd.Env = append(cleanEnv(), env...)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), want[i]) {
			t.Errorf("%s: %v, want %s in %q", m[1], err, want[i], out)
		}
		if i > 0 {
			ids[strings.Join(id.FindStringSubmatch(string(out)), " ")] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("the send and its repetition have ids %v", ids)
	}
}

// TestDevKeepsData: with a directory, a second run goes on where the first
// ended.
func TestDevKeepsData(t *testing.T) {
	needsProcesses(t)
	data := filepath.Join(t.TempDir(), "data")
	env := func(p *process) (env []string) {
		for _, m := range exportLine.FindAllStringSubmatch(p.stdout.String(), -1) {
			env = append(env, m[1])
		}
		return env
	}
	p := devStarted(t, nil, "--nodes", "3", "--data", data)
	if r := runCLI(t, env(p), "queue", "create", "jobs"); r.code != 0 {
		t.Fatalf("queue create: %+v", r)
	}
	if r := runCLI(t, env(p), "send", "jobs", "kept"); r.code != 0 {
		t.Fatalf("send: %+v", r)
	}
	p.kill()
	p = devStarted(t, nil, "--nodes", "3", "--data", data)
	if r := runCLI(t, env(p), "recv", "jobs", "--ack", "--raw"); r.code != 0 || r.stdout != "kept" {
		t.Errorf("recv after the restart: %+v", r)
	}
}

func TestDevPortInUse(t *testing.T) {
	needsProcesses(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := runCLI(t, nil, "dev", "--listen", l.Addr().String())
	if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "in use") || !strings.Contains(r.stderr, "--listen") {
		t.Errorf("dev on a used port: %+v", r)
	}
}
