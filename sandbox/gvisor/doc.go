// Package gvisor is the driver whose cloisters have a kernel of their own, gVisor's.
//
// It promises what sandbox.Driver promises, rootless or as root, and that the command's
// system calls are answered by gVisor and not by the host's kernel. Namespaces, view,
// gate, protected paths and limits around it are those of sandbox/native, of which the
// kernel is the command. The kernel is a program of its own, cloister-gvisor, that
// Cloister is not linked with (kernel/, a module of its own). Who runs where, and what
// the level cannot do, is in docs/gvisor.md. Most readers want New.
package gvisor
