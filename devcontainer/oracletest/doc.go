// Package oracletest compares what the room devcontainer reads and merges with the
// reference implementation, @devcontainers/cli, on generated configurations.
//
// The promise: for each of them both give the same configuration, merged configuration
// and workspace folder, and what of it a cloister does not get is named by a finding. It
// has tests only, and starts no container: an engine's answers about an image are a
// file's. CLOISTER_ORACLE=2000 asks for so many instead of the few of every run.
package oracletest
