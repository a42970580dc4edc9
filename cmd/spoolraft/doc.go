// Command spoolraft is the one binary: the server, and the commands that speak
// to it.
//
// internal/cli holds the commands, internal/api the HTTP client under them,
// internal/bench the load generator, and internal/server what runs nodes for
// serve and dev. The commands speak HTTP only, so that they work against any
// server of the contract.
//
// DESIGN.md says why it is so and what was rejected.
package main
