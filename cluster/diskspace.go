package cluster

import (
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"
)

// diskFree is how many bytes an unprivileged process can still write there.
func diskFree(path string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// diskGuard watches the free space, so that a leader refuses writes while
// refusing is still possible: a log that fails in the middle of a write leaves
// the outcome unknown.
type diskGuard struct {
	dir  string
	min  uint64
	free func(string) (uint64, error)
	log  *slog.Logger
	full atomic.Bool
}

func (g *diskGuard) check() {
	free, err := g.free(g.dir)
	if err != nil {
		g.log.Warn("cannot tell the free disk space", "dir", g.dir, "error", err)
		return
	}
	full := free < g.min
	if g.full.Swap(full) == full {
		return
	}
	if full {
		g.log.Error("the disk is nearly full: writes are refused until there is space", "dir", g.dir, "freeBytes", free, "neededBytes", g.min)
	} else {
		g.log.Info("there is disk space again: writes are accepted", "dir", g.dir, "freeBytes", free)
	}
}

func (g *diskGuard) run(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.check()
		case <-stop:
			return
		}
	}
}
