// Package client calls the queue's HTTP API and records every call.
//
// Invariants:
//
//   - One call is one request: nothing is retried here, and Go's transport
//     repeats only requests of which it wrote no byte.
//   - The outcome follows the status alone, by one table ([Classify]). A call
//     whose connection was never made is refused; every other call without a
//     whole answer is unknown.
package client
