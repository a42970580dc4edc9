//go:build race

package fsm_test

// many is what a large queue holds in tests. The race detector has nothing to
// find in this package, and slows it down by ten times.
const many = 30_000
