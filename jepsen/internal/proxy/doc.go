// Package proxy stands between nodes, and between clients and nodes, and
// makes networks go bad.
//
// Each node has one listener in front of its peer port. Who dials is found by
// asking the kernel which process owns the other end of the connection, so
// that the proxy needs no knowledge of the protocol, and conditions are kept
// per ordered pair of nodes.
//
// Invariants:
//
//   - Bytes are delayed or withheld, never reordered, altered or lost inside
//     a living connection: below TCP a lost packet is a delay. A link that
//     loses too much resets its connections.
//   - A cut from A to B holds what flows from A to B in every connection
//     between them, whoever dialed. What was held arrives after the cut.
package proxy
