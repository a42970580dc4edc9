package main

import (
	"strings"
	"testing"
)

// TestDevRemove: the nodes of dev can be removed, the leader and the one that is
// asked too, and the others go on.
func TestDevRemove(t *testing.T) {
	needsProcesses(t)
	p := devStarted(t, nil, "--nodes", "3")
	env := exports(p)
	if r := runCLI(t, env, "queue", "create", "jobs", "--dedup-window", "1h"); r.code != 0 {
		t.Fatalf("queue create: %+v", r)
	}
	if r := runCLI(t, env, "send", "jobs", "hello", "--dedup-key", "k"); r.code != 0 {
		t.Fatalf("send: %+v", r)
	}
	var urls []string
	for _, m := range nodeLine.FindAllStringSubmatch(p.stdout.String(), -1) {
		urls = append(urls, m[1])
	}
	if len(urls) != 3 {
		t.Fatalf("nodes: %q", urls)
	}
	if r := runCLI(t, env, "cluster", "transfer", "n1"); r.code != 0 || r.stdout != "n1 leads.\n" {
		t.Fatalf("transfer: %+v", r)
	}
	if r := runCLI(t, env, "cluster", "remove", "n1"); r.code != 0 || !strings.HasPrefix(r.stdout, "n1 was removed.") {
		t.Fatalf("remove: %+v", r)
	}
	env = append(env, "SPOOLER_API="+urls[1])
	if r := runCLI(t, env, "send", "jobs", "hello", "--dedup-key", "k"); r.code != 0 || !strings.Contains(r.stdout, "already there") {
		t.Errorf("send again: %+v", r)
	}
	if r := runCLI(t, env, "cluster", "remove", "n3"); r.code != 0 || !strings.Contains(r.stdout, "1 of 1 voters are well") {
		t.Errorf("remove another: %+v", r)
	}
	if r := runCLI(t, env, "cluster", "remove", "n2"); r.code != 4 || !strings.Contains(r.stderr, "last_voter") {
		t.Errorf("remove the last: %+v", r)
	}
	if r := runCLI(t, env, "cluster", "add", "n4", "--wait", "0"); r.code != 1 || !strings.Contains(r.stderr, "spoolraft dev") {
		t.Errorf("add: %+v", r)
	}
	eventually(t, "both say that they were removed", func() (bool, string) {
		return strings.Count(p.stderr.String(), "was removed from the cluster") == 2, p.stderr.String()
	})
	if !p.running() {
		t.Error("dev ended")
	}
}
