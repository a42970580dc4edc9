package checker

import (
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// checkReads: default reads show everything that had happened before they
// began; every node's own state is the same at the same point of the log.
func checkReads(x *index, r *report) {
	byQueue := map[string][]*history.Op{}
	for _, o := range x.h.Ops {
		if o.Outcome != history.OK || o.Stats == nil && o.Kind != history.ReadItems {
			continue
		}
		r.Checked++
		if o.Stats != nil {
			checkSums(r, o)
			if !o.StaleRead {
				byQueue[o.Queue] = append(byQueue[o.Queue], o)
			}
		} else if !o.StaleRead {
			checkListing(x, r, o)
		}
	}
	c := newCounters(x)
	for _, name := range sortedNames(byQueue) {
		if len(x.queue(name).deletes) == 0 {
			c.check(r, name, byQueue[name])
		}
	}
	checkReplicas(x, r)
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkSums: the counts of one answer agree with one another.
func checkSums(r *report, o *history.Op) {
	s := o.Stats
	if sum := s.Delayed + s.Visible + s.Pending + s.Failed + s.Unavailable; sum != s.Total {
		r.add("states-do-not-add-up", fmt.Sprintf("%s has %d messages, and %d by state", o.Queue, s.Total, sum), o)
	}
	if left := s.AddedTotal - s.AckedTotal - s.DiscardedTotal - s.ExpiredTotal; left != s.Total {
		r.add("totals-do-not-add-up", fmt.Sprintf("%s has %d messages; its totals since creation leave %d", o.Queue, s.Total, left), o)
	}
}

// checkListing: what was gone before the listing began is not in it.
func checkListing(x *index, r *report, o *history.Op) {
	for _, it := range o.Items {
		m := x.messages[it.ID]
		for _, l := range m.deliveries {
			for _, s := range l.settles {
				if isFinal(s.Kind) && s.Outcome == history.OK && s.End < o.Start {
					r.add("gone-but-listed", fmt.Sprintf("%s was settled by %s, and listed afterwards", m.id, s.Kind), s, o)
					return
				}
			}
		}
	}
}

// counter is one of the totals: the operations that certainly raise it, and
// those that may.
type counter struct {
	name          string
	value         func(*history.Stats) int64
	surely, maybe []*history.Op
}

// counters are the totals of every queue.
type counters map[string][]*counter

func newCounters(x *index) counters {
	c := counters{}
	for _, o := range x.h.Ops {
		c.count(x, o)
	}
	return c
}

const (
	added = iota
	acked
	nacked
	released
	discarded
)

func (c counters) of(queue string) []*counter {
	if c[queue] == nil {
		c[queue] = []*counter{
			added:     {name: "addedTotal", value: func(s *history.Stats) int64 { return s.AddedTotal }},
			acked:     {name: "ackedTotal", value: func(s *history.Stats) int64 { return s.AckedTotal }},
			nacked:    {name: "nackedTotal", value: func(s *history.Stats) int64 { return s.NackedTotal }},
			released:  {name: "releasedTotal", value: func(s *history.Stats) int64 { return s.ReleasedTotal }},
			discarded: {name: "discardedTotal", value: func(s *history.Stats) int64 { return s.DiscardedTotal }},
		}
	}
	return c[queue]
}

// count files the operation under the totals that it raises.
func (c counters) count(x *index, o *history.Op) {
	if !o.Applied() {
		return
	}
	file := func(queue string, which int, surely bool) {
		k := c.of(queue)[which]
		k.maybe = append(k.maybe, o)
		if surely {
			k.surely = append(k.surely, o)
		}
	}
	source := o.Queue
	if l := x.leases[o.TokenOp]; l != nil {
		source = l.recv.Queue
	}
	sure := o.Outcome == history.OK
	switch o.Kind {
	case history.Send:
		c.countSend(x, o, file)
	case history.AckAndSend:
		c.countSend(x, o, file)
		file(source, acked, sure)
	case history.Ack:
		file(source, acked, sure)
	case history.Nack:
		file(source, nacked, sure)
	case history.Release:
		file(source, released, sure)
	case history.Recv:
		if !sure { // granted to a client that had gone, a message is given back
			file(source, released, false)
		}
	case history.Discard:
		file(source, discarded, sure)
	}
}

// countSend leaves out duplicates, and attempts that left no trace.
func (c counters) countSend(x *index, o *history.Op, file func(string, int, bool)) {
	if o.Status == 201 || o.Outcome == history.Unknown && (len(x.attempts[o.Payload].found) > 0 || !x.drained) {
		file(o.Queue, added, o.Status == 201)
	}
}

// check compares the reads of one queue with what had happened by then.
func (c counters) check(r *report, queue string, reads []*history.Op) {
	for _, k := range c.of(queue) {
		ends, starts := make([]int64, 0, len(k.surely)), make([]int64, 0, len(k.maybe))
		for _, o := range k.surely {
			ends = append(ends, o.End)
		}
		for _, o := range k.maybe {
			starts = append(starts, o.Start)
		}
		slices.Sort(ends)
		slices.Sort(starts)
		for _, read := range reads {
			low, _ := slices.BinarySearch(ends, read.Start)
			high, _ := slices.BinarySearch(starts, read.End)
			if got := k.value(read.Stats); got < int64(low) || got > int64(high) {
				r.add("wrong-count", fmt.Sprintf("%s of %s reads %d; by then it was %d to %d", k.name, queue, got, low, high), read)
			}
		}
		k.checkOrder(r, queue, reads)
	}
}

// checkOrder: a total never falls from one read to a later one.
func (k *counter) checkOrder(r *report, queue string, reads []*history.Op) {
	byEnd := slices.Clone(reads)
	slices.SortFunc(byEnd, func(a, b *history.Op) int { return int(a.End - b.End) })
	var highest *history.Op
	next := 0
	for _, read := range reads { // in order of start
		for next < len(byEnd) && byEnd[next].End < read.Start {
			if highest == nil || k.value(byEnd[next].Stats) > k.value(highest.Stats) {
				highest = byEnd[next]
			}
			next++
		}
		if highest != nil && k.value(read.Stats) < k.value(highest.Stats) {
			r.add("count-fell", fmt.Sprintf("%s of %s read %d, and later %d", k.name, queue, k.value(highest.Stats), k.value(read.Stats)), highest, read)
			return
		}
	}
}

// checkReplicas: reads of the nodes' own states agree where they were made at
// the same index.
func checkReplicas(x *index, r *report) {
	type point struct {
		queue string
		index uint64
		kind  history.Kind
	}
	first := map[point]*history.Op{}
	for _, o := range x.h.Ops {
		if !o.StaleRead || o.Outcome != history.OK || o.AppliedIndex == 0 {
			continue
		}
		p := point{o.Queue, o.AppliedIndex, o.Kind}
		a := first[p]
		if a == nil {
			first[p] = o
			continue
		}
		if differ(a, o) {
			r.add("replicas-differ", fmt.Sprintf("at index %d of the log, %s and %s hold different states of %s", o.AppliedIndex, a.Node, o.Node, o.Queue), a, o)
		}
	}
}

// differ compares what does not depend on the moment of the read: whether a
// delay or a lease has run out does, and with it state and retries.
func differ(a, b *history.Op) bool {
	if a.Stats != nil && b.Stats != nil {
		return timeless(*a.Stats) != timeless(*b.Stats)
	}
	return !slices.EqualFunc(a.Items, b.Items, func(i, j history.Item) bool { return i.ID == j.ID })
}

func timeless(s history.Stats) history.Stats {
	s.Delayed, s.Visible, s.Pending, s.Failed, s.FailedTotal = 0, 0, 0, 0, 0
	return s
}
