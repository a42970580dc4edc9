package fsm_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"pgregory.net/rapid"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/fsm/model"
)

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// listings are the queries that show everything, and one page drawn.
func listings(page fsm.Query) []fsm.Query {
	queries := []fsm.Query{
		{Kind: fsm.QueryQueues, Spool: fsm.DefaultSpool, Limit: 1000},
		{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Limit: 1000},
		{Kind: fsm.QueryStats, Spool: "other", Limit: 1000},
		page,
	}
	for _, queue := range append([]string{"missing"}, queueNames...) {
		queries = append(queries, fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: queue, Limit: 1000})
	}
	return append(queries, documentListings()...)
}

// lightQueries are those that can be answered on the live machine: every queue,
// and its first messages by fresh and by wrong handles.
func lightQueries(m *model.Model) []fsm.Query {
	queries := []fsm.Query{
		{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "missing"},
		{Kind: fsm.QueryQueue, Spool: "other", Queue: "a"},
	}
	for _, queue := range queueNames {
		queries = append(queries, fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: queue})
		first := fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: queue, Limit: 10}
		for _, item := range m.Read(first).Messages {
			handle := fsm.Token{Sort: fsm.Handle, Queue: item.ID.Queue, Message: item.ID.Message, Moves: item.Moves}
			stale, lease := handle, handle
			stale.Moves++
			lease.Sort = fsm.Lease
			for _, token := range []fsm.Token{handle, stale, lease} {
				queries = append(queries, fsm.Query{Kind: fsm.QueryInspect, Spool: fsm.DefaultSpool, Token: token})
			}
		}
	}
	return append(queries, documentQueries()...)
}

func compareReads(t *rapid.T, name string, want *model.Model, queries []fsm.Query, read func(fsm.Query) fsm.Answer) {
	if difference := readsDiffer(want, queries, read); difference != "" {
		t.Fatalf("%s at %d ms: %s", name, want.NowMs(), difference)
	}
}

// readsDiffer says where the answers are not those of the model, "" for
// nowhere.
func readsDiffer(want *model.Model, queries []fsm.Query, read func(fsm.Query) fsm.Answer) string {
	for _, q := range queries {
		got := read(q)
		got.AppliedIndex = 0
		if w := want.Read(q); !reflect.DeepEqual(got, w) {
			return fmt.Sprintf("%s\ngot  %s\nwant %s", show(q), show(got), show(w))
		}
	}
	return ""
}

// page draws a listing with filters.
func page(t *rapid.T) fsm.Query {
	q := fsm.Query{
		Kind:  oneOf(t, "listing", fsm.QueryQueues, fsm.QueryStats, fsm.QueryMessages),
		Spool: fsm.DefaultSpool,
		Limit: rapid.IntRange(1, 3).Draw(t, "limit"),
	}
	if q.Kind == fsm.QueryMessages {
		q.Queue = oneOf(t, "queue", queueNames...)
		q.State = fsm.MessageState(rapid.IntRange(0, 5).Draw(t, "state"))
		q.AfterMessage = uint64(rapid.IntRange(0, 4).Draw(t, "after"))
		return q
	}
	q.Match = oneOf(t, "match", "", "", "[ab]", "^c:", "nothing")
	q.After = oneOf(t, "after", "", "", "a", "aa", "b", "z")
	if q.Kind == fsm.QueryStats {
		q.Names = oneOf(t, "names", nil, nil, []string{"a"}, []string{"b", "missing", "c:1", "b"})
	}
	return q
}

// compareLightReads asks the live machine as of now and of a later time.
func compareLightReads(t *rapid.T, s *subject, m, later *model.Model) {
	before := s.m.Hash()
	compareReads(t, s.name, m, lightQueries(m), func(q fsm.Query) fsm.Answer { return s.m.Read(m.NowMs(), q) })
	compareReads(t, s.name+", read as of later", later, lightQueries(m), func(q fsm.Query) fsm.Answer {
		return s.m.Read(later.NowMs(), q)
	})
	if s.m.Hash() != before {
		t.Fatalf("%s: reading changed the hash", s.name)
	}
}

// receives are what receives from a queue would give now.
type receives struct {
	first    fsm.Code
	received int     // until nothing comes, or enough
	laterMs  []int64 // when a first receive would give something, of the due times
}

func receivesFrom(m *model.Model, queue string) receives {
	receive := func(m *model.Model) fsm.Code {
		return m.Apply(fsm.Batch{Commands: []fsm.Command{{Op: fsm.OpReceive, Spool: fsm.DefaultSpool, Queue: queue}}})[0].Code
	}
	now := m.At(m.NowMs())
	r := receives{first: receive(now)}
	for code := r.first; code == fsm.CodeOK && r.received < 50; code = receive(now) {
		r.received++
	}
	if r.first == fsm.CodeEmpty {
		for _, ms := range dueTimes(m) {
			if receive(m.At(ms)) == fsm.CodeOK {
				r.laterMs = append(r.laterMs, ms)
			}
		}
	}
	return r
}

// checkReceivable compares what a machine says of receives with receives that
// the model makes. It may say that there is more than there is, or that it comes
// earlier, where something is overdue, and never that there is less.
func checkReceivable(t *rapid.T, s *subject, queue string, nowMs int64, want receives) {
	code, visible, wakeAtMs := s.m.Receivable(fsm.DefaultSpool, queue, nowMs)
	if code != want.first && (code != fsm.CodeOK || want.first != fsm.CodeEmpty) {
		t.Fatalf("%s at %d ms: a receive from %q gives %d; Receivable says %d", s.name, nowMs, queue, want.first, code)
	}
	if visible < want.received {
		t.Fatalf("%s at %d ms: %q has %d to receive; Receivable says %d", s.name, nowMs, queue, want.received, visible)
	}
	if code == fsm.CodeEmpty && len(want.laterMs) > 0 && (wakeAtMs == 0 || wakeAtMs > want.laterMs[0]) {
		t.Fatalf("%s at %d ms: %q has something at %d ms; Receivable says %d", s.name, nowMs, queue, want.laterMs[0], wakeAtMs)
	}
}

// checkNextDue expects nothing to change by itself before the time that
// NextDueMs names, save that delays end.
func checkNextDue(t *rapid.T, s *subject, m *model.Model) {
	dueMs, ok := s.m.NextDueMs()
	if ok && dueMs <= m.NowMs() {
		return // by a change of settings in the last batch
	}
	state := func(m *model.Model) (totals fsm.Totals, settled [4]uint64) {
		a := m.Read(fsm.Query{Kind: fsm.QueryStats, Spool: fsm.DefaultSpool, Limit: 1})
		return a.Sum.Totals, [4]uint64{a.QueueCount, a.Sum.Delayed + a.Sum.Visible, a.Sum.Pending, a.Sum.DedupKeys}
	}
	totals, counts := state(m)
	for _, ms := range append(dueTimes(m), dueMs-1) {
		if ok && ms >= dueMs {
			continue
		}
		laterTotals, laterCounts := state(m.At(ms))
		if laterTotals != totals || laterCounts != counts || !slices.Equal(claimStats(m), claimStats(m.At(ms))) {
			t.Fatalf("%s at %d ms: something changes by %d ms; NextDueMs says %d, %v", s.name, m.NowMs(), ms, dueMs, ok)
		}
	}
}
