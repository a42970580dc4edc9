// Package fusefs is a disk that can lose its power.
//
// A [Disk] is a file system in memory that keeps two states: what a process
// sees, and what it has flushed. [Disk.PowerLoss] forgets the difference, or
// lets a part of it survive, as a real disk may. Mounted with FUSE under a
// node's data directory, it also hangs flushes, fails them, and runs full.
//
// Invariants:
//
//   - A file's content is safe up to its last fsync. Pages written since may
//     survive, or not, or in parts of 512 bytes.
//   - A name (created, renamed, removed) is safe after an fsync of its
//     directory. Changes of names since then survive in the order in which
//     they were made; a rename survives whole.
//   - Where [Options.Journal] is set, any fsync makes all names safe, as the
//     journal of a common Linux file system does.
//   - A flush that was waiting when the power went persists nothing.
package fusefs
