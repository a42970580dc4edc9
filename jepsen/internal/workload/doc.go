// Package workload is what clients do during a run.
//
// A workload is a source of units: one unit is one thing that a careful
// client would do, with all of its retries. Invariants:
//
//   - Every attempt has a payload of its own, so that what is found in a queue
//     names the attempt that put it there.
//   - A unit makes its choices with dice of its own, so that one seed gives
//     the same choices whatever the answers.
//   - A unit ends with the run, leaving open keys behind; Finish settles them
//     once the cluster is well again.
package workload
