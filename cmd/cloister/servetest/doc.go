// Package servetest drives cloister serve as the clients of its tenants do, and as hostile
// clients and payloads would.
//
// The promise: it talks to the built binary over its sockets alone, and each case says what
// must not be there afterwards. E2B's own SDK is used as script/agents installs it.
//
// It does not attack the enclosure (escape does). The folder holds tests only; most readers
// want newServer.
package servetest
