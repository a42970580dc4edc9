package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBench measures real nodes in every mode, closed and open, and leaves
// nothing behind.
func TestBench(t *testing.T) {
	needsProcesses(t)
	members := newCluster(t)
	nodes := "--nodes=http://" + members[0].http + ",http://" + members[1].http + ",http://" + members[2].http
	dir := t.TempDir()
	for _, mode := range [][]string{
		{"send"}, {"send", "--keyed=false", "--rate=200", "--new-queues=3"}, {"send-batch", "--batch=20"}, {"send-batch", "--batch=20", "--json-batch"},
		{"cycle"}, {"cycle", "--rate=50"}, {"wait", "--rate=50"},
	} {
		page := filepath.Join(dir, strings.Join(mode, "")+".html")
		got := runCLI(t, []string{"SPOOLER_KEY=any"}, append([]string{"bench", nodes, "--clients=6", "--warmup=0s", "--duration=1s", "--json", "--report=" + page}, mode...)...)
		var result struct {
			Messages  int
			Failures  map[string]int
			Missed    int
			Latencies []struct{ Count int }
		}
		if err := json.Unmarshal([]byte(got.stdout), &result); err != nil || got.code != 0 {
			t.Fatalf("%v: %v: %+v", mode, err, got)
		}
		if result.Messages == 0 || len(result.Failures) > 0 || result.Missed > 0 || result.Latencies[0].Count == 0 {
			t.Errorf("%v: %s", mode, got.stdout)
		}
		if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<svg") {
			t.Errorf("%v: the page: %v", mode, err)
		}
	}
	a, err := members[0].call(http.MethodGet, "/v1/spools/default/queues", "")
	if err != nil || a.status != http.StatusOK || strings.TrimSpace(a.body) != `{"items":[]}` {
		t.Errorf("what is left: %d %s %v", a.status, a.body, err)
	}
}
