package cluster

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// tree is the digest of every file in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func inspect(t *testing.T, dir string) *Inspection {
	t.Helper()
	i, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

// payloads are those of the sends among the entries, in their order.
func payloads(entries []LogEntry) (all []string) {
	for _, e := range entries {
		for _, c := range e.Batch.Commands {
			if c.Op == fsm.OpSend {
				all = append(all, c.Payload)
			}
		}
	}
	return all
}

// TestInspectReadsWhatTheNodeWrote compares a log, read from the disk and
// replayed, with what was sent and with the node's own state.
func TestInspectReadsWhatTheNodeWrote(t *testing.T) {
	t.Parallel()
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			c := newCluster(t, 1, func(_ string, cfg *Config) { cfg.LogStore, cfg.tuning.segment = store, 8<<10 })
			n := c.nodes["a"]
			makeQueue(t, n, "q")
			var want []string
			for i := range 40 {
				want = append(want, strings.Repeat("x", 500)+key(i))
				mustDo(t, n, keyed("q", key(i), want[i]))
			}
			if r := mustDo(t, n, keyed("q", key(3), "again")); r.Code != fsm.CodeDuplicate {
				t.Fatalf("retry: %+v", r)
			}
			status := n.Status()
			c.stop("a")
			dir := filepath.Join(c.dir, "a")
			before := tree(t, dir)

			i := inspect(t, dir)
			entries := slices.Collect(i.Replay(0, math.MaxUint64))
			if got := payloads(entries); !slices.Equal(got, append(want, "again")) {
				t.Errorf("%d payloads, want %d", len(got), len(want)+1)
			}
			if got := payloads(slices.Collect(i.Entries(0, math.MaxUint64))); len(got) != len(want)+1 {
				t.Errorf("without replay, %d payloads", len(got))
			}
			at := slices.IndexFunc(entries, func(e LogEntry) bool { return e.Index == status.AppliedIndex })
			if at < 0 || entries[at].Hash != status.Hash {
				t.Errorf("the replayed state at %d differs from the node's, or there is none", status.AppliedIndex)
			}
			if last := entries[at].Results[0]; last.Code != fsm.CodeDuplicate || last.ID.Message != 4 {
				t.Errorf("the last command was %+v", last)
			}
			if d := i.Damages(); len(d) > 0 {
				t.Errorf("damaged: %v", d)
			}
			if i.NodeID != "a" || i.ClusterID != status.ClusterID || i.InstanceID != status.InstanceID {
				t.Errorf("it is of node %q, instance %q, cluster %q", i.NodeID, i.InstanceID, i.ClusterID)
			}
			few := slices.Collect(i.Replay(10, 12))
			if len(few) != 3 || few[0].Index != 10 || few[0].Hash != entries[9].Hash {
				t.Errorf("entries 10 to 12: %+v", few)
			}
			if !mapsEqual(before, tree(t, dir)) {
				t.Error("the directory was changed")
			}
		})
	}
}

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestInspectGoesOnFromASnapshot replays a log whose beginning is gone.
func TestInspectGoesOnFromASnapshot(t *testing.T) {
	t.Parallel()
	i := inspect(t, dataDir(t, LogStoreWAL))
	first, last := i.Bounds()
	if first <= 1 || len(i.snapshots) != 1 {
		t.Fatalf("the log has entries %d to %d, and there are %d snapshots", first, last, len(i.snapshots))
	}
	at := i.snapshots[0].Index
	for e := range i.Replay(0, math.MaxUint64) {
		if e.Replayed != (e.Index > at) || (e.Kind == EntryBatch && e.Index > at) != (e.Results != nil) {
			t.Errorf("entry %d, with a snapshot of %d: %+v", e.Index, at, e)
		}
	}
	if entries := slices.Collect(i.Replay(last, last)); len(entries) != 1 || !entries[0].Replayed {
		t.Errorf("the last entry alone: %+v", entries)
	}
	if d := i.Damages(); len(d) > 0 {
		t.Errorf("damaged: %v", d)
	}
}

// TestInspectTellsASnapshotThatIsNotTheLogs puts another state's snapshot in the
// place of one.
func TestInspectTellsASnapshotThatIsNotTheLogs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	odd := n.replica.m.NowMs() + 1
	mustDo(t, n, keyed("q", "k", "payload"))
	n.replica.mu.Lock()
	n.replica.m.Apply(n.replica.m.AppliedIndex(), fsm.Batch{NowMs: odd + 1000})
	n.replica.mu.Unlock()
	if err := n.raft.Load().Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.stop("a")
	i := inspect(t, filepath.Join(c.dir, "a"))
	for range i.Replay(0, math.MaxUint64) {
	}
	if d := i.Damages(); len(d) != 1 || !strings.Contains(d[0].Path, "state.bin") || !strings.Contains(d[0].What, "digest") {
		t.Errorf("damaged: %v", d)
	}
}

// TestInspectTellsDamage breaks a directory in every way that a node refuses,
// votes apart: each is named, and what is whole is read.
func TestInspectTellsDamage(t *testing.T) {
	t.Parallel()
	whole := map[string]string{LogStoreWAL: dataDir(t, LogStoreWAL), LogStoreBolt: dataDir(t, LogStoreBolt)}
	survive := map[string]int{ // sends that can still be read, of 8; fewer elsewhere
		"bit in an entry": 7, "bit in an entry, bolt": 7, "bit in the last entry": 7,
		"page in the list of log files overwritten": 8, "identity missing": 8, "identity garbled": 8,
		"bit in a snapshot": 8, "snapshot's description garbled": 8, "snapshots missing": 8,
	}
	for _, d := range damages {
		if strings.Contains(d.name, "votes") {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a")
			if err := os.CopyFS(dir, os.DirFS(whole[d.store])); err != nil {
				t.Fatal(err)
			}
			d.do(t, dir)
			i := inspect(t, dir)
			entries := slices.Collect(i.Replay(0, math.MaxUint64))
			named := slices.ContainsFunc(i.Damages(), func(found Damage) bool {
				return strings.Contains(found.String(), d.want)
			})
			if !named {
				t.Errorf("nothing says that %s is damaged: %v", d.want, i.Damages())
			}
			if got := len(payloads(entries)); got < survive[d.name] {
				t.Errorf("%d sends can be read, want %d; damage: %v", got, survive[d.name], i.Damages())
			}
		})
	}
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Inspect(dir); err == nil || !strings.Contains(err.Error(), "not the data directory") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Inspect(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no directory: %v", err)
	}
	n, err := Start(t.Context(), alone(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(dir); err == nil || !strings.Contains(err.Error(), "a node runs") {
		t.Errorf("a node's directory while it runs: %v", err)
	}
	if err := n.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	i := inspect(t, dir)
	if _, err := Start(t.Context(), alone(dir, "")); err == nil {
		t.Error("a node started on a directory that is being read")
	}
	inspect(t, dir) // by two at once
	i.Close()
}
