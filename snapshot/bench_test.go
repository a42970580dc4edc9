package snapshot_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/snapshot"
)

// machineOf has n messages of 256 bytes and n remembered keys.
func machineOf(b *testing.B, n int) *fsm.Machine {
	f := newFeeder(b)
	s := fsm.DefaultSettings()
	s.DedupWindowSeconds = 3600
	f.create("q", s)
	payload := strings.Repeat("x", 256)
	batch := make([]fsm.Command, 0, 1000)
	for i := range n {
		batch = append(batch, sendCommand("q", fmt.Sprint(i), payload, 0))
		if len(batch) == cap(batch) || i == n-1 {
			f.apply(batch...)
			batch = batch[:0]
		}
	}
	return f.m
}

func BenchmarkWrite100k(b *testing.B) {
	img := machineOf(b, 100_000).Image()
	var size bytes.Buffer
	if err := snapshot.Write(&size, img); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := snapshot.Write(io.Discard, img); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead100k(b *testing.B) {
	var data bytes.Buffer
	if err := snapshot.Write(&data, machineOf(b, 100_000).Image()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(data.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := snapshot.Read(bytes.NewReader(data.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
