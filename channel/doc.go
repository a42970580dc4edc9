// Package channel takes deliveries, refuses repeats of the same idempotency key
// within a window, and runs a short workflow.
//
// These invariants hold:
//
//   - A key is claimed before the workflow runs and settled once its outcome is
//     durable. Every other outcome releases it, and a claim whose owner is gone
//     lapses.
//   - A refusal by a guard before deduplication never touches the store.
//   - A configuration is refused with the path of what is wrong, or does what it
//     says: no field is ignored.
//   - A key is never part of a message for people.
//
// Stores differ, their promises don't: package storetest holds each against
// the same suite.
package channel
