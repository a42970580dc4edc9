package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// inFlightGrace is how long a send of unknown outcome may still be in flight
// somewhere in the cluster.
const inFlightGrace = int64(20 * time.Second)

// claimed is a message that was appended under a key.
type claimed struct {
	m  *message
	op *history.Op
	by int64 // it was there by then
}

// checkKeys: at most one message per key and window, and every hit names it.
func checkKeys(x *index, r *report) {
	r.Checked = len(x.orderKeys)
	for _, name := range x.orderKeys {
		k := x.keys[name]
		claims := x.claims(k)
		for i := 1; i < len(claims); i++ {
			checkTwice(x, r, k, claims[i-1], claims[i])
		}
		for _, o := range k.attempts {
			switch {
			case o.Status == 200 || o.ErrorKind == "dedup_claimed" && o.MessageID != "":
				checkHit(x, r, k, claims, o)
			case o.ErrorKind == "dedup_in_flight":
				checkInFlight(r, k, o)
			}
		}
	}
}

// claims are the messages that were appended under the key, in log order.
func (x *index) claims(k *key) []claimed {
	var list []claimed
	add := func(m *message, o *history.Op) {
		if !slices.ContainsFunc(list, func(c claimed) bool { return c.m == m }) {
			list = append(list, claimed{m, o, m.existsBy()})
		}
	}
	for _, o := range k.attempts {
		for _, m := range x.attempts[o.Payload].found {
			add(m, o)
		}
		if o.Status == 201 && o.MessageID != "" {
			add(x.messages[o.MessageID], o)
		}
	}
	slices.SortFunc(list, func(a, b claimed) int {
		return cmp.Or(cmp.Compare(a.m.generation, b.m.generation), cmp.Compare(a.m.number, b.m.number))
	})
	return list
}

// checkTwice: the second message came after the first one's window, or after
// the window was changed.
func checkTwice(x *index, r *report, k *key, a, b claimed) {
	q := x.queue(k.name.queue)
	if a.m.generation != b.m.generation || q.mayBeCleared(a.op.Start, b.by) {
		return
	}
	if b.by < a.op.Start+q.window-x.tolerance {
		r.add("appended-twice", fmt.Sprintf("the key %q of %s was appended as %s and again as %s within its window",
			k.name.key, k.name.queue, a.m.id, b.m.id), a.op, b.op)
	}
}

// mayBeCleared reports whether a window change may have happened in between.
func (q *queue) mayBeCleared(after, before int64) bool {
	return slices.ContainsFunc(q.updates, func(o *history.Op) bool {
		return o.Start < before && upTo(o) > after && q.effect(o) != keeps
	})
}

// What an update does to the keys.
const (
	keeps = iota
	mayClear
	clears
)

// effect says whether the update changed the window, by the settings that the
// same client had read just before. Another change of unknown outcome leaves
// it open.
func (q *queue) effect(o *history.Op) int {
	if o.Settings == nil || o.Settings.DedupWindowSeconds == nil {
		return keeps
	}
	for _, other := range q.updates {
		if other != o && other.Outcome == history.Unknown && other.Start < o.End {
			return mayClear
		}
	}
	var read *history.Op
	for _, g := range q.gets {
		if g.Client == o.Client && g.End < o.Start && g.Outcome == history.OK {
			read = g
		}
	}
	if read == nil || read.Settings == nil || read.Settings.DedupWindowSeconds == nil {
		return mayClear
	}
	for _, other := range q.updates {
		if other != o && other.Start < o.End && upTo(other) > read.Start {
			return mayClear
		}
	}
	switch {
	case *read.Settings.DedupWindowSeconds == *o.Settings.DedupWindowSeconds:
		return keeps
	case o.Outcome == history.OK:
		return clears
	}
	return mayClear
}

// checkHit: what is called a duplicate names a message of the same key that
// is remembered.
func checkHit(x *index, r *report, k *key, claims []claimed, hit *history.Op) {
	q := x.queue(k.name.queue)
	i := slices.IndexFunc(claims, func(c claimed) bool { return c.m.id == hit.MessageID })
	if i < 0 {
		m := x.messages[hit.MessageID]
		if owner := x.attemptOf(m); owner != nil {
			r.add("foreign-original", fmt.Sprintf("a send of the key %q was called a duplicate of %s, which was sent with the key %q", k.name.key, m.id, owner.Key), owner, hit)
		} else if x.drained && !q.mayBeDeleted(hit.Start-int64(time.Hour)) {
			r.add("never-stored", fmt.Sprintf("sends of the key %q were called duplicates of %s, which never was there", k.name.key, hit.MessageID), firstOf(k.attempts, hit)...)
		}
		return
	}
	c := claims[i]
	if hit.Start > c.by+q.window+x.tolerance {
		r.add("remembered-too-long", fmt.Sprintf("the key %q was free again, and a send was called a duplicate of %s", k.name.key, c.m.id), c.op, hit)
	}
	for _, later := range claims[i+1:] {
		if later.by < hit.Start && !q.mayBeDeleted(later.op.Start) {
			r.add("old-original", fmt.Sprintf("the key %q belonged to %s already, and a send was called a duplicate of %s", k.name.key, later.m.id, c.m.id), c.op, later.op, hit)
			return
		}
	}
	for _, d := range q.deletes {
		if d.Outcome == history.OK && d.DeleteMode == "force" && d.Start > c.by && d.End < hit.Start {
			r.add("kept-by-new-queue", fmt.Sprintf("%s was removed, which forgets every key, and a send was called a duplicate of %s", q.name, c.m.id), c.op, d, hit)
			return
		}
	}
	for _, u := range q.updates {
		if u.Start > c.by && u.End < hit.Start && q.effect(u) == clears {
			r.add("kept-by-window-change", fmt.Sprintf("the window of %s was changed, which forgets every key, and a send was called a duplicate of %s", q.name, c.m.id), c.op, u, hit)
			return
		}
	}
}

// checkInFlight: another send of the key was under way, or may have been.
func checkInFlight(r *report, k *key, refused *history.Op) {
	var last *history.Op
	for _, o := range k.attempts {
		if o == refused || o.Start > refused.End {
			continue
		}
		until := o.End
		if o.Outcome == history.Unknown {
			until += inFlightGrace
		}
		if until >= refused.Start {
			return
		}
		last = o
	}
	r.add("stuck-in-flight", fmt.Sprintf("the key %q is called in flight, and no send of it can be under way", k.name.key), last, refused)
}

// firstOf is the last operation and a few of those before it.
func firstOf(before []*history.Op, last *history.Op) []*history.Op {
	const few = 6
	var list []*history.Op
	for _, o := range before {
		if o.ID < last.ID && len(list) < few {
			list = append(list, o)
		}
	}
	return append(list, last)
}
