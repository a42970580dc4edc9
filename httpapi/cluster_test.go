package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// fakeCluster answers what a test gives it and records what it was asked.
type fakeCluster struct {
	asked   []string
	err     error
	missing []string
}

func (f *fakeCluster) Overview(context.Context) ClusterOverview {
	f.asked = append(f.asked, "overview")
	return ClusterOverview{
		ClusterID: "c1", Term: 7, Leader: "n1", SeenBy: "n1", Voters: 2, Well: 2, Healthy: true, Nodes: []ClusterNode{
			{Name: "n1", Instance: "0123456789abcdef", Role: "leader", Reachable: true, AppliedIndex: 9, CommitIndex: 9, StateIndex: 9, StateHash: "00000000000000ff"},
			{Name: "n2", Instance: "fedcba9876543210", Role: "voter", LastContactMs: -1},
		},
	}
}

func (f *fakeCluster) Remove(_ context.Context, node, instance string) error {
	f.asked = append(f.asked, "remove "+node+" "+instance)
	return f.err
}

func (f *fakeCluster) Transfer(_ context.Context, to string) (string, error) {
	f.asked = append(f.asked, "transfer "+to)
	return "n2", f.err
}

func (f *fakeCluster) Missing() []string { return f.missing }

func newClusterServer(t *testing.T, f *fakeCluster) *Server {
	return newTestServer(t, &fakeBroker{state: fsm.CodeSpoolSuspended}, func(c *Config) { c.Cluster = f })
}

func TestClusterCalls(t *testing.T) {
	tests := []struct {
		method, target string
		status         int
		asked          string
		body           string // a part of it
	}{
		{"GET", "/v1/cluster", 200, "overview", `"leader":"n1"`},
		{"HEAD", "/v1/cluster", 200, "overview", ""},
		{"DELETE", "/v1/cluster/nodes/n3", 204, "remove n3 ", ""},
		{"DELETE", "/v1/cluster/nodes/n3.dc-1_a?instance=0123456789abcdef", 204, "remove n3.dc-1_a 0123456789abcdef", ""},
		{"DELETE", "/v1/cluster/nodes/n%33", 204, "remove n3 ", ""},
		{"POST", "/v1/cluster/transfer", 200, "transfer ", `{"leader":"n2"}`},
		{"POST", "/v1/cluster/transfer?to=n2", 200, "transfer n2", `{"leader":"n2"}`},

		{"DELETE", "/v1/cluster/nodes/a:b", 400, "", "name of the node"},
		{"DELETE", "/v1/cluster/nodes/" + strings.Repeat("n", 65), 400, "", "name of the node"},
		{"DELETE", "/v1/cluster/nodes/a%2Fb", 400, "", "name of the node"},
		{"DELETE", "/v1/cluster/nodes/n3?instance=", 400, "", "instance"},
		{"DELETE", "/v1/cluster/nodes/n3?force=true", 400, "", "force"},
		{"POST", "/v1/cluster/transfer?to=", 400, "", "to must be"},
		{"POST", "/v1/cluster/transfer?to=a&to=b", 400, "", "more than once"},
		{"GET", "/v1/cluster/nodes", 404, "", "nothing under this path"},
		{"GET", "/v1/cluster/nodes/n3", 405, "", ""},
		{"POST", "/v1/cluster", 405, "", ""},
	}
	for _, test := range tests {
		f := &fakeCluster{}
		w := do(newClusterServer(t, f), test.method, test.target, "")
		if w.Code != test.status || strings.Join(f.asked, ",") != test.asked || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: %d, asked %q: %s", test.method, test.target, w.Code, f.asked, w.Body)
		}
	}
	w := do(newClusterServer(t, &fakeCluster{}), "POST", "/v1/cluster/transfer", "{}")
	wantProblem(t, w, 400, "")
	wantProblem(t, do(newClusterServer(t, &fakeCluster{}), "GET", "/v1/cluster", "", headerLease, "x"), 400, "unknown_header")
	alone := newTestServer(t, &fakeBroker{}, func(c *Config) { c.Cluster = nil })
	wantProblem(t, do(alone, "GET", "/v1/cluster", ""), 404, "")
}

func TestClusterOverviewIsAnsweredWhole(t *testing.T) {
	w := do(newClusterServer(t, &fakeCluster{}), "GET", "/v1/cluster", "")
	wantStatus(t, w, 200)
	got := fields(t, w)
	nodes := got["nodes"].([]any)
	want := map[string]any{
		"name": "n1", "instance": "0123456789abcdef", "role": "leader", "reachable": true, "lastContactMs": 0.0, "appliedIndex": 9.0,
		"commitIndex": 9.0, "lagEntries": 0.0, "clockOffsetMs": 0.0, "stateIndex": 9.0, "stateHash": "00000000000000ff", "diverged": false, "diskFull": false,
	}
	if !reflect.DeepEqual(nodes[0], want) {
		t.Errorf("the first node is %v, want %v", nodes[0], want)
	}
	if second := nodes[1].(map[string]any); second["lastContactMs"] != -1.0 || second["appliedIndex"] != nil {
		t.Errorf("the second node is %v", second)
	}
	if got["votersWell"] != 2.0 || got["mayFail"] != 0.0 || got["healthy"] != true || got["seenBy"] != "n1" {
		t.Errorf("%v", got)
	}
}

// TestClusterNeedsAdmin: no other scope will do.
func TestClusterNeedsAdmin(t *testing.T) {
	f := &fakeCluster{}
	s := newTestServer(t, &fakeBroker{}, func(c *Config) { c.AnyKey, c.Keys, c.Cluster = false, parseTestKeys(t), f })
	for _, call := range [][2]string{{"GET", "/v1/cluster"}, {"DELETE", "/v1/cluster/nodes/n1"}, {"POST", "/v1/cluster/transfer"}} {
		wantProblem(t, do(s, call[0], call[1], "", "Authorization", "Bearer read-key"), 403, "")
		wantProblem(t, do(s, call[0], call[1], "", "Authorization", "Bearer nobody"), 401, "")
	}
	if len(f.asked) > 0 {
		t.Errorf("the cluster was asked %v", f.asked)
	}
}

func TestClusterRefusals(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		kind   string
	}{
		{&ClusterRefusal{"node_not_found", "n9", "There is no n9."}, 404, "node_not_found"},
		{fmt.Errorf("wrapped: %w", &ClusterRefusal{"no_majority_left", "n1", "No."}), 409, "no_majority_left"},
		{&ClusterRefusal{"of a later version", "n1", "No."}, 500, "operation_unconfirmed"},
		{fsm.ErrNotApplied, 503, ""},
		{fsm.ErrClosed, 503, ""},
		{fmt.Errorf("10.0.0.1: %w", fsm.ErrUnknown), 500, "operation_unconfirmed"},
	} {
		for _, call := range [][2]string{{"DELETE", "/v1/cluster/nodes/n1"}, {"POST", "/v1/cluster/transfer"}} {
			w := do(newClusterServer(t, &fakeCluster{err: test.err}), call[0], call[1], "")
			body := w.Body.String()
			got := wantProblem(t, w, test.status, test.kind)
			if strings.Contains(body, "10.0.0.1") {
				t.Errorf("the answer shows the error: %s", body)
			}
			if test.status == 409 && !reflect.DeepEqual(got.Details, map[string]any{"node": "n1"}) {
				t.Errorf("details %v", got.Details)
			}
		}
	}
}

// TestReadyNamesMissingNodes: they do not make a node unready.
func TestReadyNamesMissingNodes(t *testing.T) {
	s := newClusterServer(t, &fakeCluster{missing: []string{"n3"}})
	w := do(s, http.MethodGet, "/readyz", "")
	wantStatus(t, w, 200)
	if got := strings.TrimSpace(w.Body.String()); got != `{"ready":true,"missing":["n3"]}` {
		t.Errorf("readyz: %s", got)
	}
}
