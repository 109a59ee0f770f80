// Package e2b answers the wire of E2B's SDKs with the sandboxes of serve.
//
// [Door] is an http.Handler for one address: the control API by X-API-Key, and below each
// sandbox's name the calls for its files and processes, which E2B's own servers leave to a
// daemon inside. Here the host answers all of them.
//
// The promise: a request without the right key or token learns nothing, not even whether
// an ID exists; nothing that a request says widens what the tenant's policy allows; a body,
// a stream and a client's silence are bounded. It keeps no state but watchers, and what it
// does not implement is refused by name.
//
// Most readers want [New].
package e2b
