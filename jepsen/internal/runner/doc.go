// Package runner makes a run: it drives a workload against a cluster while
// faults are injected, heals, settles what is open, reads, and receives
// everything that is left, so that every unknown outcome is resolved.
package runner
