// Package webtest drives the window of the built binary in a real browser.
//
// It promises nothing to other code; it holds tests alone: every page, every
// button, what another origin may not do, and how fast and how large it is.
package webtest
