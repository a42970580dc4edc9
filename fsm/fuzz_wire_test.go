package fsm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// The decoders accept one encoding of a value and refuse everything else with
// an error that says which of the two it is.

func wantDecodeError(t *testing.T, err error) {
	t.Helper()
	var unknown fsm.UnknownOpError
	if !errors.Is(err, fsm.ErrMalformed) && !errors.As(err, &unknown) {
		t.Fatalf("error %v, want ErrMalformed or an UnknownOpError", err)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(fsm.AppendBatch(nil, fsm.Batch{NowMs: 1}))
	for _, named := range everyCommand() {
		f.Add(fsm.AppendBatch(nil, fsm.Batch{NowMs: 1_700_000_000_000, Commands: []fsm.Command{named.c}}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := fsm.DecodeBatch(data)
		if err != nil {
			wantDecodeError(t, err)
			return
		}
		if again := fsm.AppendBatch(nil, b); !bytes.Equal(again, data) {
			t.Fatalf("%x decodes, and encodes as %x", data, again)
		}
		// Whatever can be in a log can be applied.
		m := fsm.New()
		m.Apply(1, fsm.Batch{Commands: []fsm.Command{{Op: fsm.OpInit, ClusterID: "c"}, {Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "o"}}})
		if results := m.Apply(2, b); len(results) != len(b.Commands) {
			t.Fatalf("%d results for %d commands", len(results), len(b.Commands))
		}
	})
}

func FuzzDecodeCommands(f *testing.F) {
	for _, named := range everyCommand() {
		f.Add(fsm.AppendCommands(nil, []fsm.Command{named.c, named.c}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cs, err := fsm.DecodeCommands(data)
		if err != nil {
			wantDecodeError(t, err)
			return
		}
		if again := fsm.AppendCommands(nil, cs); !bytes.Equal(again, data) {
			t.Fatalf("%x decodes, and encodes as %x", data, again)
		}
	})
}

func FuzzDecodeResults(f *testing.F) {
	for _, named := range everyResult() {
		f.Add(fsm.AppendResult(nil, &named.r), 1)
	}
	f.Add([]byte{}, -1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		rs, err := fsm.DecodeResults(data, n)
		if err != nil {
			if !errors.Is(err, fsm.ErrMalformed) {
				t.Fatalf("error %v, want ErrMalformed", err)
			}
			return
		}
		if len(rs) != n {
			t.Fatalf("%d results, want %d", len(rs), n)
		}
		var again []byte
		for i := range rs {
			again = fsm.AppendResult(again, &rs[i])
		}
		if !bytes.Equal(again, data) {
			t.Fatalf("%x decodes, and encodes as %x", data, again)
		}
	})
}

// TestDecodersAreFrugal gives the decoders lengths and counts that the input
// does not keep.
func TestDecodersAreFrugal(t *testing.T) {
	uvarint := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	ack := fsm.AppendCommands(nil, []fsm.Command{{Op: fsm.OpAck}})[1:]
	result := fsm.AppendResult(nil, &fsm.Result{})
	inputs := map[string][]byte{
		"many commands, none there":     join([]byte{1}, uvarint(1), uvarint(fsm.MaxBatchCommands)),
		"more commands than allowed":    join([]byte{1}, uvarint(1), uvarint(fsm.MaxBatchCommands+1), make([]byte, fsm.MaxBatchCommands+2)),
		"commands without end":          join([]byte{1}, uvarint(1), uvarint(1<<63)),
		"as many commands as bytes":     join([]byte{1}, uvarint(1), uvarint(60_000), bytes.Repeat([]byte{byte(fsm.OpAck)}, 60_000)),
		"one command less than said":    join([]byte{1}, uvarint(1), uvarint(10_000), bytes.Repeat(ack, 9_999)),
		"payload of 64 MiB, none there": join([]byte{1}, uvarint(1), uvarint(1), []byte{byte(fsm.OpSend), 0, 0, 0, 0}, uvarint(fsm.MaxPayloadBytes)),
		"payload of 2^63":               join([]byte{1}, uvarint(1), uvarint(1), []byte{byte(fsm.OpSend), 0, 0, 0, 0}, uvarint(1<<63)),
		"results, one less than said":   bytes.Repeat(result, 9_999),
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []fsm.Command
	for _, named := range everyCommand() {
		all = append(all, named.c)
	}
	whole := fsm.AppendBatch(nil, fsm.Batch{NowMs: 5, Commands: all})
	for range 200 {
		altered := bytes.Clone(whole)
		for range 1 + rnd.IntN(3) {
			altered[rnd.IntN(len(altered))] = byte(rnd.Uint32())
		}
		checkFrugal(t, "altered batch", altered)
	}
	for name, data := range inputs {
		checkFrugal(t, name, data)
	}
}

// checkFrugal bounds what decoding allocates by a multiple of the input: a
// command of four bytes takes some hundred decoded.
func checkFrugal(t *testing.T, name string, data []byte) {
	t.Helper()
	bound := uint64(200*len(data) + 16<<10)
	for decoder, decode := range map[string]func() error{
		"DecodeBatch":    func() error { _, err := fsm.DecodeBatch(data); return err },
		"DecodeCommands": func() error { _, err := fsm.DecodeCommands(data); return err },
		"DecodeResults":  func() error { _, err := fsm.DecodeResults(data, len(data)/2+1); return err },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > bound {
			t.Errorf("%s of %s (%d bytes) allocates %d bytes, bound %d; error %v", decoder, name, len(data), got, bound, err)
		}
	}
}

// TestTruncatedBatches expects every batch to need its last byte.
func TestTruncatedBatches(t *testing.T) {
	for _, named := range everyCommand() {
		data := fsm.AppendBatch(nil, fsm.Batch{NowMs: 1_000, Commands: []fsm.Command{named.c}})
		for n := range data {
			if b, err := fsm.DecodeBatch(data[:n]); !errors.Is(err, fsm.ErrMalformed) {
				t.Errorf("%s, %d of %d bytes: %s, %v", named.name, n, len(data), show(b), err)
			}
		}
		if _, err := fsm.DecodeBatch(append(data, 0)); !errors.Is(err, fsm.ErrMalformed) {
			t.Errorf("%s and a byte more: %v", named.name, err)
		}
	}
}
