// Package dice turns the seed of a run into choices.
//
// Each maker of choices has a stream of its own, named by a path such as
// ("client", 3, "unit", 17). What one of them draws never shifts what another
// draws, so that a run with the same seed chooses the same, however the
// machine interleaves it.
package dice

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"
)

// Dice is one stream of choices. It is not safe for concurrent use.
type Dice struct{ *rand.Rand }

// New returns the stream of the seed that the path names.
func New(seed uint64, path ...any) Dice {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, seed) // a hash takes every write
	for _, p := range path {
		fmt.Fprintf(h, "%T:%v/", p, p)
	}
	sum := h.Sum(nil)
	return Dice{rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))}
}

// Chance is true with the probability p.
func (d Dice) Chance(p float64) bool { return d.Float64() < p }

// Between draws a duration from low to high, both included.
func (d Dice) Between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

// Pick draws one of the items, which must not be empty.
func Pick[T any](d Dice, items []T) T { return items[d.IntN(len(items))] }

// Weighted draws an index with a probability in proportion to its weight.
func (d Dice) Weighted(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := d.IntN(sum)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	return len(weights) - 1
}
