// Package fsm is what a queue is: commands, the state machine that applies
// them, deduplication, leases, tokens and limits; and what a channel needs of
// it, which is documents to be configured by and claims of keys.
//
// The machine is pure. Its only clock is the time that a batch carries, it
// draws no random numbers, starts no goroutines and does no input or output,
// so that every node that applies the same log holds the same state. These
// invariants hold between two batches:
//
//   - Log time never goes back: a batch stamped earlier than the last is
//     applied at the last one's time.
//   - Rules compare times. No result depends on how far the bounded sweep of
//     due expiries has got, except that a receive gives up behind 10,000
//     overdue messages and finds nothing for now.
//   - A remembered key has exactly one message number, whatever became of the
//     message, until its window is over or the window's setting changes.
//   - A claim in a channel's name is ended by its owner alone, or by time.
//   - Messages are in the order of their numbers and of their creation.
//   - Values in the maps are immutable: they are replaced, never changed, so
//     that an [Image] taken between two batches stays as it was.
//
// DESIGN.md says why it is so and what was rejected.
package fsm
