// Package bench is the load generator behind spoolraft bench. It speaks HTTP only,
// like every command, over connections of its own, so that on a machine which it
// shares with the nodes it takes as little of it as it can.
//
// These invariants hold:
//
//   - In an open loop a latency counts from when its call was due, whenever it was
//     made. A server that stalls is charged with every call that it kept waiting,
//     not with the one that was under way (Gil Tene's coordinated omission; the
//     remedy is that of wrk2).
//   - Every call that began in the measured time counts, however late it ends and
//     whatever it is answered.
//   - Nothing is sent twice under one key. What failed is counted, not repeated.
package bench
