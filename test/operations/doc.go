// Package operations holds docs/operations.md to what happens: a test runs every
// command of the page on real nodes, in its order.
package operations
