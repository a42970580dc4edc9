package cluster

import "sync"

const (
	hashEvery   = 256 // entries between two samples
	hashSamples = 64
)

// hashSample is the digest of the state after an entry.
type hashSample struct{ Index, Hash uint64 }

// hashRing keeps the latest samples, by which nodes notice that their states
// differ although their logs do not.
type hashRing struct {
	mu      sync.Mutex
	samples []hashSample // ascending
}

func (r *hashRing) add(index, hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == hashSamples {
		r.samples = append(r.samples[:0], r.samples[1:]...)
	}
	r.samples = append(r.samples, hashSample{index, hash})
}

func (r *hashRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = nil
}

// latest returns up to n samples.
func (r *hashRing) latest(n int) []hashSample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hashSample(nil), r.samples[max(0, len(r.samples)-n):]...)
}

func (r *hashRing) at(index uint64) (hash uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.samples {
		if s.Index == index {
			return s.Hash, true
		}
	}
	return 0, false
}
