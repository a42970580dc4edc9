package checker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// told is a digest of a state and who says so.
type told struct {
	who   string
	index uint64
	hash  string
	at    int64 // 0: after the run
}

// checkHashes: after the same entry of the log every node holds the same state,
// whether it applied all entries, began with a snapshot, or was started again;
// and replaying what a node left behind gives that state once more.
func checkHashes(x *index, r *report) {
	var all []told
	for _, d := range x.h.Digests {
		all = append(all, told{d.Node, d.Index, d.Hash, d.At})
	}
	for _, l := range x.h.Logs {
		for _, e := range x.decided(l) {
			if e.Hash != "" {
				all = append(all, told{"the log of " + l.Node, e.Index, e.Hash, 0})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.index, b.index) })
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].index == all[0].index {
			same++
		}
		if !agree(r, all[:same]) {
			return // from here on everything differs
		}
		all = all[same:]
	}
}

// agree compares what was told of one entry.
func agree(r *report, about []told) bool {
	voices := map[string]bool{}
	for _, t := range about {
		voices[t.who] = true
		if first := about[0]; t.hash != first.hash {
			r.add("states-differ", fmt.Sprintf("after entry %d of the log, the state by %s has the digest %s, and by %s %s",
				t.index, first.who, first.hash, t.who, t.hash))
			r.Violations[len(r.Violations)-1].At = max(first.at, t.at)
			return false
		}
	}
	r.Checked += len(voices) - 1
	return true
}

// decided are the entries of a log that are certainly agreed on: all of them
// after a run that ended well, since every node was level then.
func (x *index) decided(l *history.NodeLog) []history.LogEntry {
	if !x.drained {
		return nil
	}
	return l.Entries
}
