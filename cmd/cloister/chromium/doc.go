// Package chromium drives a headless Chromium for tests.
//
// A browser is spoken to over pipes, in the protocol of its developer tools: a few
// hundred lines, where a client library takes a minute to compile with all its types
// (docs/decisions/0017). What a page's console shows in red fails the test. It knows
// nothing of the window; cmd/cloister/webtest does.
//
// Most readers want [Start], then [Browser.Tab].
package chromium
