package dice

import (
	"testing"
	"time"
)

func TestStreamsDependOnSeedAndPathOnly(t *testing.T) {
	draw := func(seed uint64, path ...any) uint64 { return New(seed, path...).Uint64() }
	if first := draw(1, "client", 3); first != draw(1, "client", 3) {
		t.Error("the same stream drew differently")
	}
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"seed 1":       draw(1, "client", 3),
		"seed 2":       draw(2, "client", 3),
		"other client": draw(1, "client", 4),
		"type":         draw(1, "client", "3"),
		"joined path":  draw(1, "client/3"),
		"no path":      draw(1),
	} {
		if other, ok := seen[v]; ok {
			t.Errorf("%s and %s share a stream", name, other)
		}
		seen[v] = name
	}
}

func TestDrawsStayInBounds(t *testing.T) {
	d := New(1)
	counts := make([]int, 3)
	for range 1000 {
		if v := d.Between(time.Second, 2*time.Second); v < time.Second || v > 2*time.Second {
			t.Fatalf("drew %v", v)
		}
		counts[d.Weighted(1, 0, 3)]++
	}
	if counts[1] != 0 || counts[0] == 0 || counts[2] < counts[0] {
		t.Errorf("weights 1:0:3 drew %v", counts)
	}
	if d.Between(time.Second, time.Second) != time.Second || d.Chance(0) || !d.Chance(1) {
		t.Error("fixed choices were not fixed")
	}
}
