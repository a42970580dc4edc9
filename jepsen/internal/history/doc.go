// Package history is the record of a run: what was asked, when, by whom, of
// which node, and what came back.
//
// A history is a file of JSON lines. The first line is the header; each other
// line is an operation, a fault, a phase or a digest of a state. Invariants:
//
//   - An operation is written once, when its outcome is known. "Unknown" is
//     such an outcome.
//   - Numbers of operations rise with their start, so that a checker that
//     sorts by number sees operations in the order in which they began.
//   - Times are nanoseconds since the start of the run on one monotonic clock.
//   - No lease, handle or key of the API is written; an operation names the
//     operation that issued its token instead.
package history
