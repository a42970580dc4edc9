package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheTestClockFollowsItsFile(t *testing.T) {
	if testClock() != nil {
		t.Fatal("a clock without being asked for")
	}
	path := filepath.Join(t.TempDir(), "offset")
	t.Setenv(clockOffsetFile, path)
	clock := testClock()
	if off := time.Until(clock()).Round(time.Minute); off != 0 {
		t.Fatalf("without a file the clock is wrong by %v", off)
	}
	if err := os.WriteFile(path, []byte("-7200000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(clock()).Round(time.Minute); off != -2*time.Hour {
		t.Fatalf("the clock is wrong by %v, want two hours", off)
	}
}

func TestSnapshotBytesComeFromTheEnvironment(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "100000": 100000, "-1": 0, "much": 0} {
		t.Setenv(snapshotBytes, text)
		if got := testSnapshotBytes(); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
