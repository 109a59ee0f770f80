// Package loadtest drives the built binary with load and crashes, and looks for
// what stays behind: the resilience cases of the design as programs.
//
// The promise: each case prints its figure (go test -v), and fails where a bar
// is missed that does not depend on how fast the machine is. By itself it runs
// a short form; CLOISTER_LOAD=full runs the numbers of the design.
//
// It does not attack the enclosure and does not compare with peers (bench
// does). The folder holds tests only; most readers want newWorld.
package loadtest
