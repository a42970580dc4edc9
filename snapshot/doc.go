// Package snapshot turns a saved machine into bytes and back.
//
// A snapshot is a stream of blocks, each with its length and a checksum that
// continues the one of the block before, and ends with a block that counts the
// records. FORMAT.md describes every byte. These invariants hold:
//
//   - Writing and reading hold one block at a time, never the whole state in
//     one buffer. A block is larger than [BlockBytes] only where it is a single
//     message with a large payload.
//   - A snapshot that was cut short, lengthened or altered anywhere is refused.
//   - Reading makes a new machine and verifies its hash. The caller swaps it in
//     when, and only when, there was no error.
//   - A length in the input makes the reader allocate no more than twice what
//     it has really read, plus one block.
//
// DESIGN.md says why it is so and what was rejected.
package snapshot
