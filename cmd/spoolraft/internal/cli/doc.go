// Package cli is the command line: the commands that speak to a running server
// over HTTP, and the way in to serve and dev.
//
// The exit code of a command is part of its contract, see the Exit constants.
// Standard output carries the answer alone, as a table for people or, with
// --json, as JSON for programs; everything else goes to standard error.
package cli
