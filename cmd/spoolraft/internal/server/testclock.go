package server

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// clockOffsetFile names a file that holds by how many milliseconds this node's
// clock is to be wrong. It is for tests of clocks that jump, and only the
// environment can set it.
const clockOffsetFile = "SPOOLRAFT_TEST_CLOCK_OFFSET_FILE"

// snapshotBytes says after how many bytes of log a snapshot is taken. It is for
// tests that cannot write as much as a node usually lets the log grow, and only
// the environment can set it.
const snapshotBytes = "SPOOLRAFT_TEST_SNAPSHOT_BYTES"

// testSnapshotBytes returns what the environment asks for, 0 for the default.
func testSnapshotBytes() int64 {
	n, err := strconv.ParseInt(os.Getenv(snapshotBytes), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// testClock returns the clock that the environment asks for, nil for the true
// one. The file is read at every look, so that a test can move the clock.
func testClock() func() time.Time {
	path := os.Getenv(clockOffsetFile)
	if path == "" {
		return nil
	}
	return func() time.Time {
		text, _ := os.ReadFile(path) // missing: not wrong
		ms, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
}
