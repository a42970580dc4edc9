package runner

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

const (
	// digestEvery is how often the nodes are asked for digests of their states.
	digestEvery = 300 * time.Millisecond
	// digestTries is how often they are asked at the end until all have told one
	// of the same entry.
	digestTries = 10
)

// watchDigests asks all nodes for digests until the returned function is called.
func (r *run) watchDigests(ctx context.Context) (stop func()) {
	d, ok := r.Cluster.(deploy.Digested)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(digestEvery)
		defer tick.Stop()
		for {
			r.recordDigests(ctx, d)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
		for range digestTries {
			if r.recordDigests(context.WithoutCancel(ctx), d) {
				return
			}
			time.Sleep(digestEvery)
		}
	}
}

// recordDigests asks every node, all at the same time. It is true where all
// told a digest of the same entry.
func (r *run) recordDigests(ctx context.Context, d deploy.Digested) bool {
	nodes := r.Cluster.Nodes()
	indexes := make([]uint64, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			index, hash, ok := d.Digest(ctx, node)
			if ok {
				r.rec.Digest(history.Digest{Node: node, Index: index, Hash: hash})
				indexes[i] = index
			}
		})
	}
	asking.Wait()
	for _, index := range indexes {
		if index == 0 || index != indexes[0] {
			return false
		}
	}
	return true
}

// dumpLogs ends the nodes and keeps what their logs hold.
func (r *run) dumpLogs(ctx context.Context) error {
	l, ok := r.Cluster.(deploy.Logged)
	if !ok {
		return nil
	}
	err := l.DumpLogs(ctx, func(node string) string { return filepath.Join(r.Dir, NodesDir, node, history.LogFile) })
	if errors.Is(err, deploy.ErrNoLogs) {
		r.Log("the logs are not compared: %v", err)
		return nil
	}
	return err
}
