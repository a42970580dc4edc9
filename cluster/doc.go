// Package cluster is agreement: it puts commands into a Raft log, applies the
// log to the machine of package fsm on every node, and answers from it.
//
// A [Node] is one member. Commands given to [Node.Do] on any node end in the
// batcher of the leader, which puts many of them into one log entry; followers
// forward whole batches over the peer port. Reads are answered by a leader that
// has just made sure that it still is one. Waiting receives live on the leader
// and have no side effect.
//
// These invariants hold:
//
//   - A command is proposed at most once for each time it is given to Do. It is
//     offered again only while it provably entered no log.
//   - [fsm.ErrNotApplied] and [fsm.ErrClosed] mean that the command is in no log
//     and never will be. Whatever might be in one is [fsm.ErrUnknown].
//   - A leader serves nothing before an entry of its own term has been applied.
//   - A key is in flight only as long as the proposal that carries it, and never
//     beyond the leadership that accepted it.
//   - A node is known by its name and by a random number made with its data
//     directory. Raft sees both, and no address, so that neither a changed
//     address nor an emptied directory can be taken for somebody else.
//   - Raft's own configuration is membership. Gossip only finds addresses.
//   - A node starts on data that is whole, or not at all.
//   - A node without state founds a cluster only with exactly the nodes that it
//     expects, and joins one only through its leader. It votes in no other's place.
//   - Nobody is removed without being asked for. Who was removed is told so by a
//     leader that has made sure, and runs on its directory no more.
//   - Raft never sees an error of the disk that it would not survive.
//
// DESIGN.md says why it is so and what was rejected.
package cluster
