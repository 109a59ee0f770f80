// Package apart has each box of a driver owned by a process of its own.
//
// The first process of a native cloister shares the memory of the process that began it,
// which is why one process may own one such cloister alone. Where several stand beside
// each other, each but the caller's own is built, held and ended by this program once more:
// it is given a Spec and three streams, and hands the sockets of gate and peers back.
//
// The promise: that process knows nothing of its caller but the Spec, not even its
// environment. It ends when its box has ended, and its box when the caller is gone. An error
// is the driver's own, with its type and hints.
//
// The same conversation leads to a process of root's, which builds for another user
// (package localuser): [Over] has it from the caller's side, [Own] from the other, where
// every message comes from a user without root's rights.
//
// It builds no enclosure, and has nothing judged by the kernel.
//
// Most readers want [New], and [Main] for the process.
package apart

// Name is the word by which the program is called for it.
const Name = "__apart"
