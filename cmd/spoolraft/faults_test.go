package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// exports are what dev prints for the commands.
func exports(p *process) (env []string) {
	for _, m := range exportLine.FindAllStringSubmatch(p.stdout.String(), -1) {
		env = append(env, m[1])
	}
	return env
}

// TestDevFaults: the nodes share the rules, and a keyed send survives a lost
// answer.
func TestDevFaults(t *testing.T) {
	needsProcesses(t)
	p := devStarted(t, nil, "--nodes", "3", "--faults")
	env := exports(p)
	eventually(t, "dev warns of faults", func() (bool, string) {
		return strings.Contains(p.stdout.String(), "WARNING: fault injection is on"), p.stdout.String()
	})
	if r := runCLI(t, env, "queue", "create", "jobs", "--dedup-window", "1h"); r.code != 0 {
		t.Fatalf("queue create: %+v", r)
	}
	if r := runCLI(t, env, "faults", "add", "drop", "--operation", "send", "--queue", "jobs", "--count", "1"); r.code != 0 || r.stderr != "" {
		t.Fatalf("faults add: %+v", r)
	}
	if r := runCLI(t, env, "send", "jobs", "x", "--dedup-key", "k"); r.code != 0 || !strings.Contains(r.stdout, "already there") {
		t.Errorf("a keyed send whose answer is lost: %+v", r)
	}
	var page struct {
		Items []struct{ Injected, HiddenSuccesses int }
	}
	urls := nodeLine.FindAllStringSubmatch(p.stdout.String(), -1)
	if len(urls) != 3 {
		t.Fatalf("nodes are %q", urls)
	}
	r := runCLI(t, append(env, "SPOOLER_API="+urls[2][1]), "faults", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &page); err != nil || len(page.Items) != 1 || page.Items[0].Injected != 1 || page.Items[0].HiddenSuccesses != 1 {
		t.Errorf("faults list at another node: %+v (%v)", r, err)
	}
	if r := runCLI(t, env, "faults", "add", "503", "--when", "after"); r.code != 4 || !strings.Contains(r.stderr, "promises") {
		t.Errorf("a 503 after the call: %+v", r)
	}
	if r := runCLI(t, env, "faults", "clear"); r.code != 0 || r.stdout != "" {
		t.Errorf("faults clear: %+v", r)
	}
}

// TestNoFaultsUnlessAskedFor covers dev and serve.
func TestNoFaultsUnlessAskedFor(t *testing.T) {
	needsProcesses(t)
	p := devStarted(t, nil)
	if r := runCLI(t, exports(p), "faults", "add", "drop"); r.code != 4 || !strings.Contains(r.stderr, "without --faults") {
		t.Errorf("faults add: %+v", r)
	}
	if strings.Contains(p.stdout.String(), "faults") {
		t.Errorf("dev speaks of faults: %s", p.stdout)
	}
	for _, asked := range []bool{false, true} {
		args := []string{"serve", "--node-id", "n1", "--data", t.TempDir(), "--insecure-any-key"}
		address := freeAddress(t)
		args = append(args, "--http", address, "--peer", freeAddress(t), "--gossip", freeAddress(t))
		if asked {
			args = append(args, "--faults")
		}
		p := launch(t, nil, args...)
		env := []string{"SPOOLER_API=http://" + address, "SPOOLER_KEY=k"}
		want := map[bool]int{false: 4, true: 0}[asked]
		eventually(t, "serve answers about faults", func() (bool, string) {
			r := runCLI(t, env, "faults", "list")
			return r.code == want, r.stderr
		})
		if warned := strings.Contains(p.stderr.String(), `"level":"WARN","msg":"fault injection is on`); warned != asked {
			t.Errorf("faults asked for: %v, warned of: %v", asked, warned)
		}
	}
}
