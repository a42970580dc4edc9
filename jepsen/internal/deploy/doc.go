// Package deploy starts clusters and hurts them.
//
// A [Cluster] can be killed, stopped, paused and started, node by node. What
// else a deployment can do to its nodes is said by the small interfaces beside
// it ([Networked], [Disked], ...); a fault asks for the one that it needs.
//
// Invariants:
//
//   - Only processes and containers that this package started are touched.
//   - Operations on one node follow one another, whoever asks for them.
//   - A node that ends without having been asked to is reported, and started
//     again, as an init system would do.
package deploy
