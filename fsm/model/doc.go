// Package model is what the queue means, written down as plainly as possible:
// slices, linear scans, and at every batch and command everything is worked
// out anew. It is the yardstick that tests hold the real machine against, so it
// shares nothing with it but the types of commands, results and answers, and
// knows no index, sweep, encoding or hash.
//
// These invariants hold:
//
//   - After [Model.Apply] every expiry due by log time has been done, in the
//     order of its time.
//   - Nothing here calls a rule of package fsm: bounds, settings and defaults
//     are written out again.
package model
