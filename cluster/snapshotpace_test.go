package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

func TestSnapshotTurn(t *testing.T) {
	const limit = 100
	for name, c := range map[string]struct {
		looks, rank int
		peerSaves   bool
		grown       int64
		want        bool
	}{
		"the first goes at once":       {1, 0, false, limit, true},
		"the second waits":             {1, 1, false, limit, false},
		"but not for ever":             {2, 1, false, limit, true},
		"one at a time":                {9, 0, true, limit, false},
		"unless the log grows too far": {1, 2, true, limit + limit/2, true},
	} {
		if got := snapshotTurn(c.looks, c.rank, c.peerSaves, c.grown, limit); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// savedSink is where raft has a snapshot written.
type savedSink struct {
	bytes.Buffer
	id string
}

func (s *savedSink) ID() string    { return s.id }
func (s *savedSink) Cancel() error { return nil }
func (s *savedSink) Close() error  { return nil }

var _ raft.SnapshotSink = (*savedSink)(nil)

// TestSnapshotsAreWrittenInPieces, whole where the node goes on, and not at all
// where it stops.
func TestSnapshotsAreWrittenInPieces(t *testing.T) {
	dir := t.TempDir()
	sink := &savedSink{id: "2-7-1"}
	if err := os.MkdirAll(filepath.Join(dir, snapshotsDir, sink.id+".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, snapshotsDir, sink.id+".tmp", "state.bin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	w := pace{dir, stop}.writer(sink)
	defer w.close()
	if w.file == nil {
		t.Error("it does not find the file to flush")
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*pieceBytes/16)
	for b := want; len(b) > 0; b = b[1<<20:] {
		if _, err := w.Write(b[:1<<20]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(sink.Bytes(), want) || w.written != int64(len(want)) {
		t.Errorf("%d bytes arrived of %d, and %d were counted", sink.Len(), len(want), w.written)
	}
	close(stop)
	for range 100 { // the rest may be over before the stop is seen
		if _, err := w.Write(want[:pieceBytes]); err != nil {
			if !errors.Is(err, errNodeClosing) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a node that stops goes on with its snapshot")
}
