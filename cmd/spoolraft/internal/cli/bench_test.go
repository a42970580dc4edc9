package cli

import (
	"strings"
	"testing"
)

// TestBenchRefuses what it could not measure, before it makes a queue.
func TestBenchRefuses(t *testing.T) {
	t.Setenv("SPOOLER_KEY", "")
	const node = "--nodes=http://127.0.0.1:1"
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "give one mode"},
		{[]string{"send", "cycle"}, "give one mode"},
		{[]string{"send"}, "spoolraft dev --nodes 3"},
		{[]string{"send", node}, "SPOOLER_KEY"},
		{[]string{"sing", node, "--key=k"}, "the mode must be"},
		{[]string{"send", "--nodes=127.0.0.1:1", "--key=k"}, "http://127.0.0.1:8080"},
		{[]string{"send", node, "--key=k", "--clients=0"}, "clients"},
		{[]string{"send", node, "--key=k", "--duration=0s"}, "durations"},
		{[]string{"send", node, "--key=k", "--new-queues=0"}, "--new-queues"},
		{[]string{"send", node, "--key=k", "--json-batch"}, "--json-batch"},
		{[]string{"send-batch", node, "--key=k", "--batch=1001"}, "batch"},
		{[]string{"wait", node, "--key=k", "--rate=0"}, "rate"},
	} {
		got := runAlone("", append([]string{"bench"}, test.args...))
		if got.code != ExitUsage || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("%v: %+v", test.args, got)
		}
	}
}

// TestBenchWithoutAServer changed nothing anywhere.
func TestBenchWithoutAServer(t *testing.T) {
	if got := runAlone("", []string{"bench", "send", "--nodes=http://127.0.0.1:1", "--key=k"}); got.code != ExitFailed {
		t.Errorf("%+v", got)
	}
}
