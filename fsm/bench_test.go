package fsm_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// started is a machine with one queue that remembers keys for a week.
func started(tb testing.TB) *fsm.Machine {
	tb.Helper()
	m := fsm.New()
	settings := fsm.DefaultSettings()
	settings.DedupWindowSeconds = fsm.MaxDedupWindowSeconds
	for i, r := range m.Apply(1, fsm.Batch{NowMs: 1, Commands: []fsm.Command{
		{Op: fsm.OpInit, ClusterID: "c", Secret: fsm.Secret{1}},
		{Op: fsm.OpCreateQueue, Spool: "default", Queue: "q", Patch: fsm.FullPatch(settings)},
	}}) {
		if r.Code != fsm.CodeOK {
			tb.Fatalf("command %d: code %d", i, r.Code)
		}
	}
	return m
}

// keyed is a send whose key and payload are its number's.
func keyed(n uint64, payload string) fsm.Command {
	c := fsm.Command{Op: fsm.OpSend, Spool: "default", Queue: "q", Keyed: true, Payload: payload}
	c.Key = fsm.FingerprintOf(string(binary.BigEndian.AppendUint64(nil, n)))
	return c
}

func BenchmarkSend(b *testing.B) {
	for _, depth := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			m := started(b)
			payload := strings.Repeat("x", 256)
			for i := range depth {
				m.Apply(uint64(i+2), fsm.Batch{NowMs: int64(i), Commands: []fsm.Command{keyed(uint64(i), payload)}})
			}
			batch := fsm.Batch{NowMs: int64(depth), Commands: make([]fsm.Command, 64)}
			b.ReportAllocs()
			n := uint64(depth)
			for b.Loop() {
				for i := range batch.Commands {
					n++
					batch.Commands[i] = keyed(n, payload)
				}
				m.Apply(n, batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/send")
		})
	}
}

func BenchmarkCycle(b *testing.B) {
	m := started(b)
	payload := strings.Repeat("x", 256)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		m.Apply(n, fsm.Batch{NowMs: int64(n), Commands: []fsm.Command{keyed(n, payload)}})
		r := m.Apply(n, fsm.Batch{NowMs: int64(n), Commands: []fsm.Command{{Op: fsm.OpReceive, Spool: "default", Queue: "q"}}})[0]
		lease := fsm.Token{Sort: fsm.Lease, Queue: r.ID.Queue, Message: r.ID.Message, Moves: r.Moves}
		if r = m.Apply(n, fsm.Batch{NowMs: int64(n), Commands: []fsm.Command{{Op: fsm.OpAck, Spool: "default", Token: lease}}})[0]; r.Code != fsm.CodeOK {
			b.Fatal(r.Code)
		}
	}
}

// BenchmarkReceiveMany compares one command for 100 messages with 100 commands.
func BenchmarkReceiveMany(b *testing.B) {
	const n = 100
	single := fsm.Command{Op: fsm.OpReceive, Spool: "default", Queue: "q"}
	many := fsm.Command{Op: fsm.OpReceiveMany, Spool: "default", Queue: "q", Count: n, MaxBytes: 1 << 20}
	for _, how := range []struct {
		name string
		cs   []fsm.Command
	}{{"one command", []fsm.Command{many}}, {"100 commands", slices.Repeat([]fsm.Command{single}, n)}} {
		b.Run(how.name, func(b *testing.B) {
			m := started(b)
			sends := make([]fsm.Command, n)
			for i := range sends {
				sends[i] = fsm.Command{Op: fsm.OpSend, Spool: "default", Queue: "q", Payload: strings.Repeat("x", 256)}
			}
			nowMs := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				nowMs++
				m.Apply(1, fsm.Batch{NowMs: nowMs, Commands: sends})
				b.StartTimer()
				entry, err := fsm.DecodeBatch(fsm.AppendBatch(nil, fsm.Batch{NowMs: nowMs, Commands: how.cs}))
				if err != nil {
					b.Fatal(err)
				}
				m.Apply(1, entry)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
		})
	}
}

// BenchmarkMemory reports the bytes that a stored message of 256 bytes and a
// remembered key take.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for _, kind := range []string{"messages", "keys"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				m := started(b)
				for i := range n {
					c := keyed(uint64(i), strings.Repeat("x", 256))
					c.Keyed = kind == "keys"
					r := m.Apply(uint64(i+2), fsm.Batch{NowMs: int64(i), Commands: []fsm.Command{c}})[0]
					if kind == "keys" {
						handle := fsm.Token{Sort: fsm.Handle, Queue: r.ID.Queue, Message: r.ID.Message}
						m.Apply(uint64(i+2), fsm.Batch{NowMs: int64(i), Commands: []fsm.Command{{Op: fsm.OpDiscard, Spool: "default", Token: handle}}})
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/item")
				runtime.KeepAlive(m)
			}
		})
	}
}
