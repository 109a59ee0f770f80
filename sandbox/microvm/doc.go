// Package microvm is the driver whose cloisters have a machine of their own: QEMU's, with a
// distribution's kernel.
//
// It promises what sandbox.Driver promises, rootless or as root, and that the command runs on a
// kernel that is not the host's, in a machine without a network device. Namespaces, view, gate,
// protected paths and limits around the machine are those of sandbox/native, of which the
// machine's monitor is the command; the view's files come into it through a server that stands
// in the same enclosure, so that the mounts that hold a path read-only hold it for the guest,
// whatever its kernel does. Without KVM the machine is emulated, which a person must accept. Who
// runs where, and what the level cannot do, is in docs/microvm.md. Most readers want [New].
package microvm
