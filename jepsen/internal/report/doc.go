// Package report tells people what a run showed: a summary for the terminal,
// and a page with a timeline for the browser.
//
// The page is one file that asks for nothing from any host.
package report
