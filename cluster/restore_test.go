package cluster

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

// testMachine is a machine of a cluster, with some messages and keys.
func testMachine(clusterID string, messages int) *fsm.Machine {
	m := fsm.New()
	window := fsm.Patch{Set: fsm.FieldDedupWindow, To: fsm.Settings{DedupWindowSeconds: 3600}}
	cmds := []fsm.Command{
		{Op: fsm.OpInit, ClusterID: clusterID},
		{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "q", Patch: window},
	}
	for i := range messages {
		cmds = append(cmds, keyed("q", key(i), "payload "+key(i)))
	}
	m.Apply(7, fsm.Batch{NowMs: 1_000, Commands: cmds})
	return m
}

func saved(t *testing.T, m *fsm.Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := snapshot.Write(&b, m.Image()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestABrokenRestoreLeavesTheStateAsItWas cuts a snapshot off at every byte, and
// changes every byte: the state that was there stays whole, the node is given up
// with a reason, and applies nothing any more.
func TestABrokenRestoreLeavesTheStateAsItWas(t *testing.T) {
	t.Parallel()
	const ours = "c1"
	good, foreign := saved(t, testMachine(ours, 20)), saved(t, testMachine("c2", 20))
	restore := func(data []byte) (r *replica, was *fsm.Machine, fatal, err error) {
		was = testMachine(ours, 3)
		r = &replica{
			m: was, clusterID: func() string { return ours }, clock: time.Now,
			fatal: func(e error) { fatal = e }, flushed: func(uint64) {}, applied: func(*fsm.Batch) {},
		}
		r.index.Store(was.AppliedIndex())
		err = r.Restore(io.NopCloser(bytes.NewReader(data)))
		return r, was, fatal, err
	}
	hash := testMachine(ours, 3).Hash()
	broken := [][]byte{foreign}
	for i := range good {
		flipped := slices.Clone(good)
		flipped[i] ^= 1
		broken = append(broken, good[:i], flipped)
	}
	for i, data := range broken {
		r, was, fatal, err := restore(data)
		if err == nil || fatal == nil {
			t.Fatalf("broken snapshot %d: error %v, the node was given up with %v", i, err, fatal)
		}
		if r.m != was || r.m.Hash() != hash || r.index.Load() != was.AppliedIndex() {
			t.Fatalf("broken snapshot %d changed the state", i)
		}
		if _, err := r.Snapshot(); err == nil {
			t.Fatalf("a node that was given up over broken snapshot %d took one", i)
		}
	}
	r, _, fatal, err := restore(good)
	if err != nil || fatal != nil || r.m.Hash() != testMachine(ours, 20).Hash() {
		t.Errorf("a whole snapshot: error %v, given up with %v, digest %x", err, fatal, r.m.Hash())
	}
}
