//go:build race

package main

// buildFlags build the program as the tests are built.
var buildFlags = []string{"-race"}
