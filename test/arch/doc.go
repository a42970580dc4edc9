// Package arch holds the rules of the architecture, as tests. Each rule says
// why it is there; a change that needs to break one changes the rule first.
package arch
