// Package fake is a queue cluster in memory that speaks enough of the HTTP
// contract for the harness to be tested against: one state, several front
// ends that can be killed, paused and cut off.
//
// It exists to prove that the harness can fail. Bugs are planted by name
// ([Bugs]); without one, no checker may complain.
//
// Invariant: the state changes under one lock only, so that without a planted
// bug every history of it is linearizable.
package fake
