package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stubLog prints what the harness takes for a log: how often the node of the
// directory was started. It never returns. A damaged directory ends it with the
// exit code 1, and one without a file with the 2 of a server that does not know
// the command.
func stubLog(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "flushed"))
	if err != nil {
		os.Exit(2)
	}
	fmt.Printf("%d starts\n", len(text))
	if strings.Contains(string(text), "!") {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestDigestsAreReadFromMetrics(t *testing.T) {
	p := startStubs(t, false)
	index, hash, ok := p.Digest(context.Background(), "n2")
	if !ok || index != 256 || hash != "ffffffff00000010" {
		t.Errorf("n2 tells %d %s (%v)", index, hash, ok)
	}
	if _, _, ok := p.Digest(context.Background(), "n1"); ok {
		t.Error("a node that tells no digest seems to tell one")
	}
	must(t, p.Pause("n2", true))
	if _, _, ok := p.Digest(context.Background(), "n2"); ok {
		t.Error("a paused node seems to tell a digest")
	}
}

func TestLogsArePrintedOfEndedNodes(t *testing.T) {
	for _, disks := range []bool{false, true} {
		p := startStubs(t, disks)
		must(t, p.node("n3").whileDown(func() error { return p.node("n3").writeFile("flushed", []byte("!"), 0) }))
		out := t.TempDir()
		file := func(node string) string { return filepath.Join(out, node, "log.jsonl") }
		must(t, p.DumpLogs(context.Background(), file))
		for _, node := range p.Nodes() {
			text, err := os.ReadFile(file(node))
			if err != nil || string(text) != "1 starts\n" || p.Running(node) {
				t.Errorf("of %s there is %q (%v), running is %v", node, text, err, p.Running(node))
			}
		}
		must(t, p.Wipe("n1"))
		if err := p.DumpLogs(context.Background(), file); !errors.Is(err, ErrNoLogs) {
			t.Errorf("a server without the command: %v", err)
		}
	}
}
