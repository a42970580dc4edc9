package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/fsm"
)

// startNode starts a node that is a cluster of its own.
func startNode(t *testing.T, dir string) *cluster.Node {
	t.Helper()
	n, err := cluster.Start(t.Context(), cluster.Config{
		NodeID: "n1", DataDir: dir, PeerListen: "127.0.0.1:0", Discovery: cluster.NewHub().Discovery(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// usedDirectory is the data directory of a node that took a few commands.
func usedDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	n := startNode(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(c fsm.Command) fsm.Result {
		c.Spool = fsm.DefaultSpool
		r, err := n.Do(ctx, &c)
		if err != nil {
			t.Fatalf("command %d: %v", c.Op, err)
		}
		return r
	}
	window := fsm.Patch{Set: fsm.FieldDedupWindow, To: fsm.Settings{DedupWindowSeconds: 60}}
	do(fsm.Command{Op: fsm.OpCreateQueue, Queue: "orders", Patch: window})
	send := fsm.Command{Op: fsm.OpSend, Queue: "orders", Keyed: true, Key: fsm.FingerprintOf("order-1"), Payload: "two lamps"}
	do(send)
	do(send)
	r := do(fsm.Command{Op: fsm.OpReceive, Queue: "orders"})
	lease := fsm.Token{Sort: fsm.Lease, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}
	do(fsm.Command{Op: fsm.OpAckAndSend, Queue: "orders", Token: lease, DelaySeconds: 60, Payload: "one lamp"})
	do(fsm.Command{Op: fsm.OpAck, Token: lease})
	do(fsm.Command{Op: fsm.OpDeleteQueue, Queue: "orders", Drain: true})
	if err := n.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDebugLogOfANode(t *testing.T) {
	dir := usedDirectory(t)
	got := runAlone("", []string{"debug", "log", dir, "--replay"})
	if got.code != ExitDone || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, row := range [][]string{
		{"queue_create", "orders", `{"dedupWindowSeconds":60}`, "done"},
		{"send", "orders", "9", "appended 1-1"},
		{"send", "orders", "duplicate 1-1"},
		{"receive", "orders", "granted 1-1"},
		{"ack_and_send", "lease 1-1.1 delay 1m", "appended 1-2"},
		{"ack", "lease 1-1.1", "refused stale_token"},
		{"queue_delete", "drain", "done"},
		{"node n1, cluster", "has the digest"},
	} {
		if !slices.ContainsFunc(strings.Split(got.stdout, "\n"), func(line string) bool {
			return !slices.ContainsFunc(row, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("no line has all of %q in:\n%s", row, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "lamp") {
		t.Error("payloads are printed")
	}
	if shown := runAlone("", []string{"debug", "log", dir, "--payloads"}); !strings.Contains(shown.stdout, `"two lamps"`) {
		t.Errorf("payloads are not printed:\n%s", shown.stdout)
	}
	whole := strings.Count(got.stdout, "\n")
	if few := runAlone("", []string{"debug", "log", dir, "--from", "4", "--to", "5"}); strings.Count(few.stdout, "\n") != 4 {
		t.Errorf("of %d lines, entries 4 and 5 are:\n%s", whole, few.stdout)
	}
}

func TestDebugLogForPrograms(t *testing.T) {
	got := runAlone("", []string{"debug", "log", usedDirectory(t), "--replay", "--json"})
	if got.code != ExitDone {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	var last struct {
		logLine
		Summary *summary
	}
	for lines := bufio.NewScanner(strings.NewReader(got.stdout)); lines.Scan(); {
		hash := last.Hash
		last.logLine, last.Summary = logLine{}, nil
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		if last.Summary != nil {
			last.Hash = hash
		}
	}
	s := last.Summary
	if s == nil || s.NodeID != "n1" || s.First != 1 || s.Index != s.Last || s.Hash == "" || s.Hash != last.Hash || s.Damages != nil {
		t.Errorf("the summary is %+v, the last digest %s", s, last.Hash)
	}
}

func TestDebugLogTellsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	got := runAlone("", []string{"debug", "log", dir})
	if got.code != ExitFailed || !strings.Contains(got.stderr, "not the data directory") {
		t.Errorf("an empty directory: exit code %d, stderr %q", got.code, got.stderr)
	}
	n := startNode(t, dir)
	got = runAlone("", []string{"debug", "log", dir})
	if got.code != ExitFailed || got.stdout != "" || !strings.Contains(got.stderr, "a node runs in") {
		t.Errorf("a running node: exit code %d, stderr %q", got.code, got.stderr)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	dir = usedDirectory(t)
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*.wal"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments: %v, %v", segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	data[strings.Index(string(data), "two lamps")] ^= 1
	if err := os.WriteFile(segments[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	got = runAlone("", []string{"debug", "log", dir, "--replay"})
	if got.code != ExitFailed || !strings.Contains(got.stderr, filepath.Base(segments[0])) || !strings.Contains(got.stderr, "checksum") {
		t.Errorf("a damaged entry: exit code %d, stderr %q", got.code, got.stderr)
	}
	if !strings.Contains(got.stdout, "DAMAGED") || !strings.Contains(got.stdout, "queue_delete") || !strings.Contains(got.stdout, "done") {
		t.Errorf("the rest is not printed:\n%s", got.stdout)
	}
}

// TestDebugLogOutput pins what is printed of each kind of entry.
func TestDebugLogOutput(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease, handle := fsm.Token{Sort: fsm.Lease, Queue: 1, Message: 7, Moves: 3}, fsm.Token{Sort: fsm.Handle, Queue: 1, Message: 8}
	entries := []cluster.LogEntry{
		{Index: 1, Term: 1, Kind: cluster.EntryConfiguration, Members: []string{"n1/00 Voter", "n2/01 Nonvoter"}},
		{Index: 2, Term: 2, Kind: cluster.EntryNoop, AppendedAt: at},
		{Index: 3, Term: 2, Kind: cluster.EntryBatch, AppendedAt: at, Batch: fsm.Batch{NowMs: at.UnixMilli()}, Replayed: true, Hash: 1},
		{Index: 4, Term: 2, Kind: cluster.EntryBatch, AppendedAt: at, Batch: fsm.Batch{NowMs: at.UnixMilli() + 1, Commands: []fsm.Command{
			{Op: fsm.OpInit, Secret: fsm.Secret{1, 2, 3}, ClusterID: "c1"},
			{Op: fsm.OpSetCaps, Spool: "other", Caps: fsm.Caps{MaxMessages: 5}, Suspended: true},
			{Op: fsm.OpUpdateQueue, Spool: "other", Queue: "q", Patch: fsm.FullPatch(fsm.DefaultSettings())},
			{Op: fsm.OpDeleteQueue, Spool: "default", Queue: "q", UID: "u1"},
			{Op: fsm.OpSend, Spool: "default", Queue: "q", Keyed: true, Key: fsm.FingerprintOf("k"), Payload: "hello", DelaySeconds: 90},
			{Op: fsm.OpSend, Spool: "default", Queue: "q", Payload: ""},
			{Op: fsm.OpReceive, Spool: "default", Queue: "q"},
			{Op: fsm.OpRenew, Spool: "default", Token: lease},
			{Op: fsm.OpRecover, Spool: "default", Token: handle},
			{Op: fsm.Op(200), Spool: "default"},
		}}, Results: []fsm.Result{
			{}, {}, {Code: fsm.CodeQueueNotFound}, {}, {Code: fsm.CodeDuplicate, ID: fsm.MessageID{Queue: 1, Message: 4}},
			{ID: fsm.MessageID{Queue: 1, Message: 9}}, {ID: fsm.MessageID{Queue: 1, Message: 9}, Retries: 2, LeaseExpiresAtMs: at.UnixMilli()},
			{LeaseExpiresAtMs: at.UnixMilli()}, {Code: fsm.CodeNotFailed}, {Code: fsm.Code(200)},
		}, Replayed: true, Hash: 0xabc},
		{Index: 5, Kind: cluster.EntryDamaged, Damage: "entry 5 does not have its checksum"},
		{Index: 6, Term: 2, Kind: cluster.EntryOther},
	}
	var table, lines strings.Builder
	for _, replay := range []bool{true, false} {
		f := debugLogFlags{replay: replay, payloads: !replay}
		for _, e := range entries {
			l := describeEntry(e, f.payloads)
			for _, row := range f.rows(l) {
				if len(row) != len(f.columns()) {
					t.Errorf("a row has %d cells: %q", len(row), row)
				}
				table.WriteString(strings.Join(row, " | ") + "\n")
			}
			text, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			lines.WriteString(string(text) + "\n")
		}
	}
	golden(t, "debug-log", table.String())
	golden(t, "debug-log-json", lines.String())
}
