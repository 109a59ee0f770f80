// Package realtest drives the built binary with the programs that people really
// run in a cloister: agents from npm, git, npm, the go command, pip, ssh.
//
// The promise: every client is the unmodified program, everything it talks to
// is a server of the test on loopback that the guardian reaches through
// proxy.hosts, so a story passes only when enclosure, gate, policy and audit
// work together. Each story ends by looking for what a cloister may not leave.
//
// It does not attack the enclosure (escape does), does not measure, and needs
// no internet except to install the agents (script/agents).
//
// The folder holds tests only; most readers want newWorld.
package realtest
