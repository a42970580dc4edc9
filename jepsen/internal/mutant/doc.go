// Package mutant plants bugs in the real server, so that the harness can show
// that it finds them.
//
// A bug is a file below bugs: what it breaks, the flags of a run that finds it,
// the checkers of which one has to, and texts of the server's source with what
// takes their place. The server is built with them through an overlay: neither
// the source nor a server built without them knows of it.
//
//	breaks: an answer comes before the flush
//	run: --workload keyed-send --faults power-all --time 15s --seed 7
//	found by: messages, log
//	quick: yes
//
//	--- cluster/lateflush.go
//	the text as it is
//	+++
//	the text that takes its place
//
// Invariants:
//
//   - Every text to be replaced is in its file exactly once; a test says so when
//     the source has moved on.
//   - A bug that is quick shows in nearly every run of a few seconds.
package mutant
