// Package faults makes chosen calls of the API fail on purpose, so that a team
// can test the retries of its own producers and consumers.
//
// [Injector.Wrap] puts itself in front of the API's handler. Rules are added,
// listed and removed over HTTP under /faults; each names calls and what is to
// happen to them.
//
// These invariants hold:
//
//   - Without Wrap nothing of this package is in the way of a call.
//   - An injected answer keeps the contract: one that promises that nothing
//     changed is never given once the call was carried out.
//   - An injected answer is, byte for byte, the one that the API itself, or a
//     proxy in front of it, would give.
//   - Only a key with the admin scope adds, lists or removes rules.
//   - A rule's draws depend on what it says alone, its seed included: the n-th
//     call that it matches meets the same fate in every run.
//
// DESIGN.md says why it is so and what was rejected.
package faults
