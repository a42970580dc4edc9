// Package examples holds the programs of docs/testing-retries.md: two small
// producers, one that stores each order once whatever fails, and one that does
// not. Its tests run both against a server that fails on purpose, and the page
// itself.
package examples
