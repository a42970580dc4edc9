// Package server runs nodes: one for serve, one or three for dev.
//
// A node is a cluster.Node and an HTTP server in front of it. It is stopped in
// the order in which nothing is lost: no new connections, waiting calls end,
// calls under way finish, then leadership is handed over and the log closed.
package server
