package fsm_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/fsm/model"
	"github.com/spoolraft/spoolraft/snapshot"
)

// The properties here drive machines and the model with the same random
// batches and compare whatever can be seen of them. -rapid.checks=N and
// -rapid.steps=N make them run longer, -rapid.seed=N again.

// noSweep is a limit that no batch's commands make up for.
const noSweep = -1 << 30

// subject is a machine under test. Restoring keeps its way of sweeping.
type subject struct {
	name       string
	m          *fsm.Machine
	sweepLimit int  // 0: as it comes
	quiet      bool // take no images
	wired      bool // encode and decode what goes in and comes out
}

func newSubject(name string, sweepLimit int) *subject {
	s := &subject{name: name, sweepLimit: sweepLimit}
	s.take(fsm.New())
	return s
}

func (s *subject) take(m *fsm.Machine) {
	s.m = m
	if s.sweepLimit != 0 {
		fsm.SetSweepLimit(m, s.sweepLimit)
	}
}

// apply applies the batch as it comes out of the log, and returns the results
// as they come out of an answer.
func (s *subject) apply(t *rapid.T, index uint64, b fsm.Batch) []fsm.Result {
	if b.NowMs >= 0 && s.wired {
		var err error
		if b, err = fsm.DecodeBatch(fsm.AppendBatch(nil, b)); err != nil {
			t.Fatalf("a batch that was encoded is %v", err)
		}
	}
	results := s.m.Apply(index, b)
	if !s.wired {
		return results
	}
	var wire []byte
	for i := range results {
		wire = fsm.AppendResult(wire, &results[i])
	}
	decoded, err := fsm.DecodeResults(wire, len(results))
	if err != nil {
		t.Fatalf("results that were encoded are %v", err)
	}
	return decoded
}

// restored returns a copy of the machine by way of a snapshot, which verifies
// the hash against one worked out from scratch.
func (s *subject) restored(t *rapid.T) *fsm.Machine {
	var buf bytes.Buffer
	if err := snapshot.Write(&buf, s.m.Image()); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	m, err := snapshot.Read(&buf)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return m
}

// savedImage is an image that is looked at later, or beside what the machine
// does next.
type savedImage struct {
	of     *subject
	differ func() string // where it is not as it should be
	beside chan string   // what differ said, where it was started already
}

// trial drives the model and the machines in step.
type trial struct {
	model    *model.Model
	author   author
	index    uint64
	main     *subject   // restarted from snapshots now and then, often imaged
	twin     *subject   // the same, never restarted or imaged while it runs
	subjects []*subject // all, with those that sweep differently
	images   []savedImage
}

func newTrial(t *rapid.T) *trial {
	r := &trial{
		model: model.New(),
		main:  newSubject("machine", 0),
		twin:  newSubject("twin", 0),
	}
	r.twin.quiet, r.twin.wired = true, true
	r.subjects = []*subject{r.main, r.twin, newSubject("machine that never sweeps", noSweep), newSubject("machine that hardly sweeps", -3)}
	r.apply(t, fsm.Batch{NowMs: 1_000_000, Commands: []fsm.Command{
		{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: "a"},
		{Op: fsm.OpInit, ClusterID: "cluster", Secret: fsm.Secret{1}},
		{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "a", Patch: fsm.Patch{
			Set: fsm.FieldDedupWindow | fsm.FieldRetention | fsm.FieldMaxRetries | fsm.FieldLeaseTimeout,
			To:  fsm.Settings{DedupWindowSeconds: 10, RetentionSeconds: 60, MaxRetries: 1, LeaseTimeoutSeconds: 5},
		}},
	}})
	return r
}

// batch draws a batch and applies it everywhere.
func (r *trial) batch(t *rapid.T) {
	nextDueMs, ok := r.main.m.NextDueMs()
	if !ok {
		nextDueMs = r.model.NowMs()
	}
	nowMs := clock(t, r.model, nextDueMs)
	r.author.preview = r.model.At(nowMs)
	r.apply(t, r.author.batch(t, nowMs))
}

func (r *trial) apply(t *rapid.T, b fsm.Batch) {
	r.index++
	want := r.model.Apply(b)
	for i, s := range r.subjects {
		got := s.apply(t, r.index, b)
		if i == 0 {
			r.learnUIDs(t, b.Commands, got, want)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d results for %d commands", s.name, len(got), len(want))
		}
		for j := range want {
			if !reflect.DeepEqual(got[j], want[j]) {
				t.Fatalf("%s at %d ms: %s\ngot  %s\nwant %s", s.name, r.model.NowMs(), show(b.Commands[j]), show(got[j]), show(want[j]))
			}
		}
	}
}

// learnUIDs tells the model the uids of new queues, which no other queue has
// had, and puts them where the model could not yet know them.
func (r *trial) learnUIDs(t *rapid.T, cs []fsm.Command, got, want []fsm.Result) {
	for i, c := range cs {
		if got[i].Queue == nil || want[i].Queue == nil {
			continue
		}
		uid := got[i].Queue.UID
		if want[i].Queue.UID == "" {
			want[i].Queue.UID = uid
		}
		if c.Op != fsm.OpCreateQueue {
			continue
		}
		for _, other := range r.author.uids {
			if uid == other || uid == "" {
				t.Fatalf("uid %q of a new queue, after %q", uid, r.author.uids)
			}
		}
		r.author.uids = append(r.author.uids, uid)
		r.model.LearnUID(c.Queue, uid)
	}
}

// restart replaces a machine by what its snapshot restores to.
func (r *trial) restart(t *rapid.T) {
	s := oneOf(t, "machine", r.subjects...)
	if !s.quiet {
		s.take(s.restored(t))
	}
}

// image keeps an image of the machine as it is or as it would be, for later or
// for another goroutine that looks at it from now on.
func (r *trial) image(t *rapid.T) {
	s := oneOf(t, "machine", r.subjects...)
	if s.quiet {
		return
	}
	saved := savedImage{of: s}
	kind := oneOf(t, "kind", "now", "later", "write")
	switch kind {
	case "now":
		saved.differ = reading(t, s.m.ImageAt(r.model.NowMs()), r.model.At(r.model.NowMs()))
	case "later":
		laterMs := clock(t, r.model, r.model.NowMs())
		saved.differ = reading(t, s.m.ImageAt(laterMs), r.model.At(laterMs))
	case "write":
		saved.differ = writing(s.m.Image(), s.m.Image())
	}
	if oneOf(t, "beside", true, false) {
		saved.beside = make(chan string, 1)
		go func() { saved.beside <- saved.differ() }()
	}
	r.images = append(r.images, saved)
}

func reading(t *rapid.T, img *fsm.Image, want *model.Model) func() string {
	queries := append(listings(page(t)), lightQueries(want)...)
	return func() string { return readsDiffer(want, queries, img.Read) }
}

// writing expects an image to be written as its equal is now.
func writing(img, equal *fsm.Image) func() string {
	var now bytes.Buffer
	err := snapshot.Write(&now, equal)
	return func() string {
		var later bytes.Buffer
		if err := errors.Join(err, snapshot.Write(&later, img)); err != nil {
			return err.Error()
		}
		if !bytes.Equal(now.Bytes(), later.Bytes()) {
			return "it is written otherwise than when it was taken"
		}
		return ""
	}
}

// readImage looks at an image taken earlier.
func (r *trial) readImage(t *rapid.T) {
	if len(r.images) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.images)-1).Draw(t, "image")
	saved := r.images[i]
	r.images = slices.Delete(r.images, i, i+1)
	difference := ""
	if saved.beside != nil {
		difference = <-saved.beside
	} else {
		difference = saved.differ()
	}
	if difference != "" {
		t.Fatalf("%s, an image taken earlier: %s", saved.of.name, difference)
	}
}

// check compares everything that can be seen.
func (r *trial) check(t *rapid.T) {
	if r.main.m.Hash() != r.twin.m.Hash() {
		t.Fatalf("hashes %x and %x after the same batches, one machine having been restored", r.main.m.Hash(), r.twin.m.Hash())
	}
	later := r.model.At(clock(t, r.model, r.model.NowMs()))
	queries := append(listings(page(t)), lightQueries(r.model)...)
	toReceive := map[string]receives{}
	for _, queue := range queueNames {
		toReceive[queue] = receivesFrom(r.model, queue)
	}
	for _, s := range r.subjects {
		if s.m.NowMs() != r.model.NowMs() || s.m.AppliedIndex() != r.index || s.m.ClusterID() != "cluster" {
			t.Fatalf("%s: at %d ms, index %d, of %q", s.name, s.m.NowMs(), s.m.AppliedIndex(), s.m.ClusterID())
		}
		compareLightReads(t, s, r.model, later)
		for queue, want := range toReceive {
			checkReceivable(t, s, queue, r.model.NowMs(), want)
		}
		if s.quiet {
			continue
		}
		compareReads(t, s.name, r.model, queries, s.m.ImageAt(r.model.NowMs()).Read)
		if got := s.restored(t).Hash(); got != s.m.Hash() {
			t.Fatalf("%s: restored with hash %x, kept up to date %x", s.name, got, s.m.Hash())
		}
	}
	checkNextDue(t, r.main, r.model)
}

func TestMachineIsLikeTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newTrial(t)
		t.Repeat(map[string]func(*rapid.T){
			"":            r.check,
			"batch":       r.batch,
			"more":        r.batch,
			"and more":    r.batch,
			"and another": r.batch,
			"and one":     r.batch,
			"restart":     r.restart,
			"image":       r.image,
			"read image":  r.readImage,
		})
		r.end(t)
	})
}

// end looks at what is left to look at.
func (r *trial) end(t *rapid.T) {
	for len(r.images) > 0 {
		r.readImage(t)
	}
	r.twin.quiet = false
	r.check(t)
}

// bulk draws one or two kinds of commands, many of each, so that bounds and
// chunks are crossed that a few commands never reach.
func (r *trial) bulk(t *rapid.T) {
	b := fsm.Batch{NowMs: r.model.NowMs() + oneOf[int64](t, "step", 0, 0, 1, 500, 1_000, 5_000, 10_000, 59_000)}
	for range rapid.IntRange(1, 2).Draw(t, "kinds") {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		c := fsm.Command{Op: oneOf(t, "op", fsm.OpSend, fsm.OpSend, fsm.OpReceive), Spool: fsm.DefaultSpool, Queue: "a"}
		if c.Op == fsm.OpReceive && oneOf(t, "at once", true, false) {
			c.Op, c.Count, c.MaxBytes, n = fsm.OpReceiveMany, uint32(n+1), fsm.MaxPayloadBytes, 1
		}
		first, stride := rapid.IntRange(0, 599).Draw(t, "first"), oneOf(t, "stride", 1, 1, 7)
		for i := range n {
			if c.Op == fsm.OpSend {
				c.Keyed, c.Key = true, fsm.FingerprintOf(strconv.Itoa((first+i*stride)%600))
			}
			b.Commands = append(b.Commands, c)
		}
	}
	r.apply(t, b)
}

func TestManyKeysAreLikeTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newTrial(t)
		for range 3 {
			r.bulk(t)
			r.check(t)
			r.restart(t)
			r.image(t)
		}
		r.end(t)
	})
}

// TestNothingBeforeInit applies anything to a machine that has no secret.
func TestNothingBeforeInit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, like := fsm.New(), model.New()
		a := author{preview: like.At(0)}
		c := a.command(t)
		if c.Op == fsm.OpInit {
			t.Skip()
		}
		before := m.Hash()
		got := m.Apply(1, fsm.Batch{Commands: []fsm.Command{c}})[0]
		if want := (fsm.Result{Code: fsm.CodeNotInitialised}); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %s", show(c), show(got))
		}
		if m.Hash() != before {
			t.Fatalf("%s changed the hash", show(c))
		}
	})
}
