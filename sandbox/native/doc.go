// Package native builds the enclosure from the kernel's own parts: namespaces,
// a mount view, a gate of loopback sockets, Landlock and seccomp.
//
// It promises what sandbox.Driver promises, rootless or as root, with no
// helper binary and no daemon. The parent writes the whole enclosure down as a
// list of system calls (type program); a forked child that never touches the Go
// runtime executes the list, and the first call that does not answer as written
// ends the start by name. It does not isolate the kernel itself: a kernel bug
// reachable through the allowed system calls is outside its promise.
// Most readers want New.
package native
