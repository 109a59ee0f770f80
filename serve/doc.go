// Package serve keeps the sandboxes of a server's tenants.
//
// A [Host] makes, finds, pauses and ends sandboxes. Each is a cloister of the tenant's own
// instance: own configuration and policy, own guardian, own record and vault, own folders.
// What is asked of one is done from outside, by the driver's Exec ([Sandbox.Start]) or by
// the program of serve/files.
//
// The promise: a tenant finds the sandboxes of its own and no trace of others; nothing of
// a request widens what the tenant's policy allows; no handle that is given out is a
// process number of the host; what a sandbox costs ends with its life. It speaks no wire
// format and knows no key: serve/e2b and serve/tenants do.
//
// Most readers want [Host.Create].
package serve
