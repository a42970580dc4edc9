package cli

import (
	"fmt"
	"strings"
	"testing"
)

// nodeJSON is a node that is well, or that has not been heard of for a minute.
func nodeJSON(n int, role string, well bool) string {
	if !well {
		return fmt.Sprintf(`{"name":"n%d","instance":"%016x","role":%q,"reachable":false,"lastContactMs":61200,"peerAddress":"10.0.0.%d:7000",`+
			`"lagEntries":0,"clockOffsetMs":0,"diverged":false,"diskFull":false}`, n, n, role, n)
	}
	return fmt.Sprintf(`{"name":"n%[1]d","instance":"%016[1]x","role":%[2]q,"reachable":true,"lastContactMs":120,"peerAddress":"10.0.0.%[1]d:7000",`+
		`"apiAddress":"10.0.0.%[1]d:8080","gossipAddress":"10.0.0.%[1]d:7946","version":"v1.0.0","appliedIndex":120,"commitIndex":120,`+
		`"lagEntries":%[1]d,"clockOffsetMs":-2,"stateIndex":120,"stateHash":"9be04f6d8a7c2b1e","diverged":false,"diskFull":false}`, n, role)
}

// clusterReply is the answer of a cluster led by n1, or by nobody.
func clusterReply(led bool, voters, well int, nodes ...string) reply {
	leader, mayFail := "", 0
	if led {
		leader, mayFail = `"leader":"n1",`, well-(voters/2+1)
	}
	return reply{status: 200, body: fmt.Sprintf(`{"clusterId":"c1","term":7,%s"seenBy":"n1","voters":%d,"votersWell":%d,"healthy":%v,"mayFail":%d,"nodes":[%s]}`,
		leader, voters, well, led, mayFail, strings.Join(nodes, ","))}
}

var (
	three = clusterReply(true, 3, 3, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true), nodeJSON(3, "voter", true))
	// twoOfThree is three without n3.
	twoOfThree = clusterReply(true, 3, 2, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true), nodeJSON(3, "voter", false))
	two        = clusterReply(true, 2, 2, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true))
	noLeader   = clusterReply(false, 3, 1, nodeJSON(1, "voter", true), nodeJSON(2, "voter", false), nodeJSON(3, "voter", false))
	joining    = clusterReply(true, 3, 3, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true), nodeJSON(3, "voter", true), nodeJSON(4, "joining", true))
	catchingUp = clusterReply(true, 3, 3, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true), nodeJSON(3, "voter", true), nodeJSON(4, "non-voter", true))
	four       = clusterReply(true, 4, 4, nodeJSON(1, "leader", true), nodeJSON(2, "voter", true), nodeJSON(3, "voter", true), nodeJSON(4, "voter", true))
)

// TestClusterOutput pins what the commands about the cluster ask and print.
func TestClusterOutput(t *testing.T) {
	tests := []struct {
		name    string
		args    string
		replies []reply
	}{
		{"cluster-status", "cluster status", []reply{three}},
		{"cluster-status-json", "cluster status --json", []reply{two}},
		{"cluster-status-dead", "cluster status", []reply{twoOfThree}},
		{"cluster-status-joining", "cluster status", []reply{catchingUp}},
		{"cluster-status-wait", "cluster status --wait 10s", []reply{twoOfThree, {status: 502}, three}},
		{"cluster-remove", "cluster remove n3", []reply{three, {status: 204}, two}},
		{"cluster-remove-json", "cluster remove n3 --json", []reply{three, {status: 204}, two}},
		{"cluster-remove-instance", "cluster remove n3 --instance 0000000000000003", []reply{{status: 204}, two}},
		{"cluster-remove-asked", "cluster remove n3", []reply{three, {status: 204}, {status: 502}}},
		{"cluster-remove-unknown", "cluster remove n3", []reply{three, refusal(500, "operation_unconfirmed"), noLeader, two}},
		{"cluster-transfer", "cluster transfer n2", []reply{{status: 200, body: `{"leader":"n2"}`}}},
		{"cluster-transfer-any", "cluster transfer --json", []reply{{status: 200, body: `{"leader":"n2"}`}}},
		{"cluster-add", "cluster add n4", []reply{three, three, joining, catchingUp, four}},
		{"cluster-add-how", "cluster add n3 --wait 0", []reply{twoOfThree}},
		{"cluster-add-there", "cluster add n3 --json", []reply{three}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, requests := run(t, "", strings.Fields(tt.args), tt.replies...)
			if got.code != ExitDone {
				t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
			}
			golden(t, tt.name, transcript(tt.args, requests, got))
		})
	}
}

// TestClusterExitCodes: what a script learns of a cluster that is not well, and of
// changes that were not made.
func TestClusterExitCodes(t *testing.T) {
	tests := []struct {
		name     string
		args     string
		replies  []reply
		code     int
		requests int // -1: any number
		stderr   string
	}{
		{"no majority", "cluster status", []reply{noLeader}, ExitFailed, 1, "n1 knows no leader, n2 is not heard of for 1m1s"},
		{"no majority, as JSON", "cluster status --json", []reply{noLeader}, ExitFailed, 1, "a majority"},
		{"one dead for long", "cluster status --wait 1s", []reply{twoOfThree}, ExitFailed, -1, "n3 is not heard of"},
		{"no such call", "cluster status", []reply{refusal(404, "")}, ExitRefused, 1, "The server says so"},
		{"no right", "cluster status --wait 10s", []reply{{status: 403, body: `{"message":"No."}`}}, ExitRefused, 1, "No"},
		{"remove nobody", "cluster remove n9", []reply{three, refusal(404, "node_not_found")}, ExitRefused, 2, "node_not_found"},
		{"remove too many", "cluster remove n2", []reply{twoOfThree, refusal(409, "no_majority_left")}, ExitRefused, 2, "no_majority_left"},
		{"remove without a leader", "cluster remove n2", []reply{noLeader, refusal(503, "")}, ExitRefused, 2, "The server says so"},
		{"remove, lost for good", "cluster remove n3 --timeout 1", []reply{three, refusal(500, "operation_unconfirmed"), three}, ExitUnknown, -1, "operation_unconfirmed"},
		{"transfer to nobody", "cluster transfer n9", []reply{refusal(404, "node_not_found")}, ExitRefused, 1, "node_not_found"},
		{"transfer, unknown", "cluster transfer", []reply{refusal(500, "operation_unconfirmed")}, ExitUnknown, 1, "cluster status"},
		{"add, nobody comes", "cluster add n4 --wait 1s", []reply{three}, ExitFailed, -1, "n4 does not vote after 1s: n4 is not there yet"},
		{"add, no answer at first", "cluster add n3", []reply{refusal(500, "operation_unconfirmed"), three, three}, 0, 3, "waiting: "},
		{"add, no answer and no wait", "cluster add n3 --wait 0", []reply{refusal(500, "operation_unconfirmed")}, ExitFailed, 1, "operation_unconfirmed"},
		{"add to dev", "cluster add n4", []reply{{status: 200, body: `{"healthy":true,"nodes":[{"name":"n1"}]}`}}, ExitFailed, 1, "spoolraft dev"},
		{"remove what", "cluster remove", nil, ExitUsage, 0, "spoolraft cluster remove NODE"},
		{"transfer to two", "cluster transfer a b", nil, ExitUsage, 0, "spoolraft cluster transfer [NODE]"},
		{"recover nothing", "cluster recover", nil, ExitUsage, 0, "--data"},
		{"recover to nowhere", "cluster recover --data d --accept-data-loss", nil, ExitUsage, 0, "--into"},
		{"recover from nowhere", "cluster recover --data /no/such/directory", nil, ExitFailed, 0, "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, requests := run(t, "", strings.Fields(tt.args), tt.replies...)
			if got.code != tt.code || !strings.Contains(got.stderr, tt.stderr) {
				t.Errorf("exit code %d, want %d; stderr %q", got.code, tt.code, got.stderr)
			}
			if tt.requests >= 0 && len(requests) != tt.requests {
				t.Errorf("%d requests, want %d", len(requests), tt.requests)
			}
		})
	}
}
