//go:build !race

package fsm_test

// many is what a large queue holds in tests.
const many = 200_000
