// Package nemesis injects faults.
//
// Each fault that a run names has a loop of its own: wait, inject, hold,
// heal. Invariants:
//
//   - What, whom and how long is drawn from dice of the fault's own, so that
//     a seed gives the same plan. Who leads at the moment is the cluster's
//     choice.
//   - Every fault heals what it broke, also when the run ends meanwhile.
//   - Faults that destroy a node's data strike one node at a time, and only
//     while all others are well: what a majority has lost nobody can keep.
package nemesis
