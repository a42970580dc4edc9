package cluster

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestTranslate lists the errors of raft: "not applied" is only what cannot be
// in a log.
func TestTranslate(t *testing.T) {
	tests := []struct {
		err  error
		want error
	}{
		{nil, nil},
		{raft.ErrNotLeader, fsm.ErrNotApplied},
		{raft.ErrLeadershipTransferInProgress, fsm.ErrNotApplied},
		{raft.ErrEnqueueTimeout, fsm.ErrNotApplied},
		{raft.ErrLeadershipLost, fsm.ErrUnknown},
		{raft.ErrAbortedByRestore, fsm.ErrUnknown},
		{raft.ErrRaftShutdown, fsm.ErrUnknown},
		{io.ErrUnexpectedEOF, fsm.ErrUnknown}, // the log could not be written
	}
	for _, tt := range tests {
		got := translate(tt.err)
		if !errors.Is(got, tt.want) {
			t.Errorf("%v became %v, want %v", tt.err, got, tt.want)
		}
		kinds := 0
		for _, k := range []error{fsm.ErrNotApplied, fsm.ErrUnknown, fsm.ErrClosed} {
			if errors.Is(got, k) {
				kinds++
			}
		}
		if want := 1; tt.err != nil && kinds != want {
			t.Errorf("%v is %d of the three", got, kinds)
		}
		// Between nodes the meaning stays.
		if back := codeOf(got).err(); !errors.Is(back, tt.want) {
			t.Errorf("%v arrives as %v", got, back)
		}
	}
	if codeOf(errNotLeader).err() != errNotLeader {
		t.Error("a follower cannot tell that it may offer the command again")
	}
	for _, refused := range []error{errBusy, errDiskFull, errGone} {
		if back := codeOf(refused).err(); !errors.Is(back, fsm.ErrNotApplied) || back == errNotLeader {
			t.Errorf("%v arrives as %v", refused, back)
		}
	}
}
