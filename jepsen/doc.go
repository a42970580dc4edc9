// Command jepsen is the outside view: it starts a cluster, drives a workload
// against its HTTP API while faults are injected, and checks what the clients
// saw against the contract.
//
// It speaks HTTP only and imports nothing of the server. Its parts are below
// internal:
//
//	history   what is recorded
//	dice      choices that follow from one seed
//	client    calls, and what a status promises
//	workload  what clients do
//	nemesis   faults
//	deploy    clusters that can be hurt
//	proxy     networks that go bad
//	fusefs    disks that lose power
//	checker   what is a violation
//	report    what people read
//	runner    a run from start to end
//	mutant    bugs for the real server, to see that they are found
//	fake      a cluster in memory with bugs on request, for testing all this
package main
