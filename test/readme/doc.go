// Package readme runs the README's examples and compares what they print.
package readme
