// Package api is a lean client of the HTTP contract, for the commands of the
// binary. It speaks HTTP only and knows none of the server's packages.
//
// Its one invariant: every failed call says what became of the change that it
// asked for, see [Outcome]. A call that may have changed something is never
// sent again, but for a keyed send, which is safe to repeat.
package api
