// Package checker finds violations of the contract in a history.
//
// Most checkers take time in proportion to the history: they look at one
// message, one key or one lease at a time. [Linearizable] searches instead,
// and is for short histories.
//
// Invariants:
//
//   - A checker reports only what no correct cluster can have done. Where an
//     outcome is unknown, or two operations overlapped, it assumes what
//     excuses the cluster.
//   - Unknown outcomes are settled by what was seen: everything is received
//     at the end, each attempt has a payload of its own, so an attempt that
//     took effect is one whose payload was seen.
//   - Every violation names the few operations that show it.
package checker
