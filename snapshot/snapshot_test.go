package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

var update = flag.Bool("update", false, "write the golden files anew")

const startMs = 1_700_000_000_000

// feeder applies commands to a machine, a batch for each call.
type feeder struct {
	t     testing.TB
	m     *fsm.Machine
	index uint64
	nowMs int64
}

func newFeeder(t testing.TB) *feeder {
	f := &feeder{t: t, m: fsm.New(), nowMs: startMs}
	f.apply(fsm.Command{Op: fsm.OpInit, Secret: fsm.Secret{1, 2, 3}, ClusterID: "cluster-1"})
	return f
}

// apply expects every command to change something.
func (f *feeder) apply(cs ...fsm.Command) []fsm.Result {
	f.t.Helper()
	f.index++
	results := f.m.Apply(f.index, fsm.Batch{NowMs: f.nowMs, Commands: cs})
	for i, r := range results {
		if !r.Code.Changed() {
			f.t.Fatalf("command %+v: code %d", cs[i], r.Code)
		}
	}
	return results
}

func (f *feeder) create(name string, s fsm.Settings) {
	f.t.Helper()
	f.apply(fsm.Command{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: name, Patch: fsm.FullPatch(s)})
}

func (f *feeder) send(queue, key, payload string, delaySeconds uint32) {
	f.t.Helper()
	f.apply(sendCommand(queue, key, payload, delaySeconds))
}

func sendCommand(queue, key, payload string, delaySeconds uint32) fsm.Command {
	c := fsm.Command{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: queue, Payload: payload, DelaySeconds: delaySeconds}
	if key != "" {
		c.Keyed, c.Key = true, fsm.FingerprintOf(key)
	}
	return c
}

func (f *feeder) receive(queue string) fsm.Token {
	f.t.Helper()
	r := f.apply(fsm.Command{Op: fsm.OpReceive, Spool: fsm.DefaultSpool, Queue: queue})[0]
	return fsm.Token{Sort: fsm.Lease, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}
}

func (f *feeder) settle(op fsm.Op, lease fsm.Token) {
	f.t.Helper()
	f.apply(fsm.Command{Op: op, Spool: fsm.DefaultSpool, Token: lease})
}

// smallMachine has something of everything that a snapshot can hold.
func smallMachine(t testing.TB) *fsm.Machine {
	f := newFeeder(t)
	f.apply(fsm.Command{Op: fsm.OpSetCaps, Spool: fsm.DefaultSpool, Caps: fsm.Caps{
		MaxMessages: 1000, MaxDataBytes: 1 << 20, MaxDedupKeys: 500, MaxQueues: 10, MaxRetentionSeconds: 86_400,
	}})
	s := fsm.Settings{LeaseTimeoutSeconds: 30, MaxRetries: 3, DedupWindowSeconds: 600, RetentionSeconds: 3_600}
	f.create("orders", s)
	s.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1500, Burst: 10}
	s.LeaseTimeoutSeconds, s.DedupWindowSeconds = 0, 0
	f.create("gone", s)
	f.create("limited:by-rate", s)
	f.create("draining", s)
	f.apply(fsm.Command{Op: fsm.OpDeleteQueue, Spool: fsm.DefaultSpool, Queue: "gone"})

	f.send("orders", "a", "acked, its key stays", 0)
	f.settle(fsm.OpAck, f.receive("orders"))
	f.nowMs += 250
	f.send("orders", "b", "pending", 0)
	f.receive("orders")
	f.send("orders", "c", "failed", 0)
	f.settle(fsm.OpFail, f.receive("orders"))
	f.send("orders", "", "returned", 0)
	f.settle(fsm.OpNack, f.receive("orders"))
	f.send("orders", "d", "delayed", 60)
	f.send("orders", "", "", 0)
	f.send("limited:by-rate", "", "leased for ever", 0)
	f.receive("limited:by-rate")
	f.send("draining", "", "last", 0)
	f.apply(fsm.Command{Op: fsm.OpDeleteQueue, Spool: fsm.DefaultSpool, Queue: "draining", Drain: true})
	return f.m
}

// channelMachine also has channels and connectors, with something of every claim.
func channelMachine(t testing.TB) *fsm.Machine {
	f := &feeder{t: t, m: smallMachine(t), nowMs: startMs + 1_000}
	f.index = f.m.AppliedIndex()
	put := func(kind fsm.DocumentKind, name, text string) {
		f.apply(fsm.Command{Op: fsm.OpPutDocument, Kind: kind, Name: name, Payload: text})
	}
	put(fsm.ChannelDocument, "quiet", "")
	put(fsm.ChannelDocument, "charges", `{"steps":[]}`)
	put(fsm.ConnectorDocument, "store", `{"type":"cache","backend":"raft"}`)
	put(fsm.ChannelDocument, "charges", `{"steps":[{"enqueue":{"queue":"orders"}}]}`)
	claim := func(op fsm.Op, key string, owner byte) {
		f.apply(fsm.Command{
			Op: op, Spool: fsm.DefaultSpool, Queue: "orders", Name: "charges", Key: fsm.FingerprintOf(key), Owner: fsm.Owner{owner},
			WindowSeconds: 300, LapseMs: 10_000, MaxKeys: 100, Payload: "charged",
		})
	}
	claim(fsm.OpClaim, "open", 1)
	claim(fsm.OpClaim, "settled", 2)
	f.nowMs += 500
	claim(fsm.OpSettleClaim, "settled", 2)
	claim(fsm.OpClaim, "released", 3)
	claim(fsm.OpReleaseClaim, "released", 3)
	claim(fsm.OpClaimAndSend, "sent", 4)
	return f.m
}

func write(t testing.TB, m *fsm.Machine) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := snapshot.Write(&buf, m.Image()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	large := newFeeder(t)
	large.create("q", fsm.DefaultSettings())
	for _, size := range []int{snapshot.BlockBytes / 2, snapshot.BlockBytes, 1, 3 * snapshot.BlockBytes, 0, snapshot.BlockBytes / 2, 5 << 20} {
		large.send("q", "", strings.Repeat("x", size), 0)
	}
	many := newFeeder(t)
	s := fsm.DefaultSettings()
	s.DedupWindowSeconds = 60
	many.create("q", s)
	for i := range 20_000 {
		many.send("q", string(rune('a'+i%26))+strings.Repeat("k", i/26%200)+strings.Repeat("l", i/5200), "payload", 0)
	}
	for _, c := range []struct {
		name string
		m    *fsm.Machine
	}{
		{"nothing applied", fsm.New()},
		{"initialised", newFeeder(t).m},
		{"everything of version 1", smallMachine(t)},
		{"everything", channelMachine(t)},
		{"large payloads", large.m},
		{"many records", many.m},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := write(t, c.m)
			got, err := snapshot.Read(iotest.HalfReader(bytes.NewReader(data)))
			if err != nil {
				t.Fatal(err)
			}
			if got.Hash() != c.m.Hash() || got.AppliedIndex() != c.m.AppliedIndex() || got.NowMs() != c.m.NowMs() || got.ClusterID() != c.m.ClusterID() {
				t.Fatalf("restored %x at %d, %d ms of %q; saved %x at %d, %d ms of %q", got.Hash(), got.AppliedIndex(), got.NowMs(), got.ClusterID(),
					c.m.Hash(), c.m.AppliedIndex(), c.m.NowMs(), c.m.ClusterID())
			}
			if again := write(t, got); !bytes.Equal(again, data) {
				t.Fatal("written again, it has other bytes")
			}
		})
	}
}

// TestImageStays writes an image after the machine went on.
func TestImageStays(t *testing.T) {
	f := newFeeder(t)
	f.create("q", fsm.DefaultSettings())
	f.send("q", "", "one", 0)
	want := write(t, f.m)
	img := f.m.Image()
	f.settle(fsm.OpAck, f.receive("q"))
	f.send("q", "", "two", 0)
	var got bytes.Buffer
	if err := snapshot.Write(&got, img); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatal("the image changed with the machine")
	}
}

func TestGolden(t *testing.T) {
	for file, make := range map[string]func(testing.TB) *fsm.Machine{"v1.snapshot": smallMachine, "v2.snapshot": channelMachine} {
		t.Run(file, func(t *testing.T) { checkGolden(t, filepath.Join("testdata", file), make(t)) })
	}
}

func checkGolden(t *testing.T, path string, m *fsm.Machine) {
	data := write(t, m)
	if *update {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, golden) {
		t.Error("the bytes of this version have changed: that is a new version (see FORMAT.md)")
	}
	got, err := snapshot.Read(bytes.NewReader(golden))
	if err != nil {
		t.Fatal(err)
	}
	if got.Hash() != m.Hash() {
		t.Errorf("the golden snapshot restores to %x, want %x", got.Hash(), m.Hash())
	}
}

// TestWithoutDocumentsVersion1IsWritten: nodes of a version before can read it.
func TestWithoutDocumentsVersion1IsWritten(t *testing.T) {
	for want, m := range map[uint32]*fsm.Machine{1: smallMachine(t), 2: channelMachine(t)} {
		if got := binary.LittleEndian.Uint32(write(t, m)[8:]); got != want {
			t.Errorf("written as version %d, want %d", got, want)
		}
	}
}

// refuse expects Read to call the bytes damaged.
func refuse(t *testing.T, data []byte, what string) {
	t.Helper()
	m, err := snapshot.Read(bytes.NewReader(data))
	var damaged *snapshot.DamagedError
	if m != nil || !errors.As(err, &damaged) {
		t.Fatalf("%s: got machine %v, error %v; want a DamagedError", what, m != nil, err)
	}
	if damaged.Offset < 0 || damaged.Offset > int64(len(data)) {
		t.Fatalf("%s: offset %d of %d", what, damaged.Offset, len(data))
	}
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	data := write(t, channelMachine(t))
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			refuse(t, data, "a flipped bit")
			data[i] ^= 1 << bit
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	data := write(t, channelMachine(t))
	for n := range data {
		refuse(t, data[:n], "a truncation")
	}
}

func TestTrailingBytesAreRefused(t *testing.T) {
	data := write(t, channelMachine(t))
	refuse(t, append(bytes.Clone(data), 0), "a byte more")
	refuse(t, append(bytes.Clone(data), data...), "twice")
}

var errDisk = errors.New("disk gone")

// brittleWriter takes so many bytes.
type brittleWriter int

func (w *brittleWriter) Write(b []byte) (int, error) {
	if len(b) > int(*w) {
		return int(*w), errDisk
	}
	*w -= brittleWriter(len(b))
	return len(b), nil
}

func TestErrorsOfTheFilePass(t *testing.T) {
	m := channelMachine(t)
	data := write(t, m)
	for n := range data {
		w := brittleWriter(n)
		if err := snapshot.Write(&w, m.Image()); !errors.Is(err, errDisk) {
			t.Fatalf("Write with room for %d bytes: %v", n, err)
		}
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errDisk))
		if _, err := snapshot.Read(r); !errors.Is(err, errDisk) {
			t.Fatalf("Read failing after %d bytes: %v", n, err)
		}
	}
	r := io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errDisk))
	if _, err := snapshot.Read(r); !errors.Is(err, errDisk) {
		t.Fatalf("Read failing at the end: %v", err)
	}
}
