// Package cgroup makes groups of processes that the kernel bounds and counts
// together.
//
// The promise: a group bounds what it was asked to bound, or there is none and
// the error says which controller is missing. Kill ends every process that is in
// it, however many forks away, and returns when they are gone. What lies in the
// place of the kernel's files is never written.
//
// It keeps no one in: a process with the right to write another group's list of
// processes can leave. On version 1 only root can make groups, on version 2 a
// service manager has to have delegated one.
//
// Most readers want [New].
package cgroup
