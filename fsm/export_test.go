package fsm

// SetSweepLimit sets how many due expiries a batch without commands takes care
// of; a negative number stops the sweep for tests of what must not depend on it.
func SetSweepLimit(m *Machine, n int) { m.sweepBase = n }

// NewSealer is a sealer under a known secret.
func NewSealer(s Secret) Sealer { return Sealer{s} }
