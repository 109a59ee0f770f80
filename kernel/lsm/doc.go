// Package lsm has the kernel judge what the processes of a session do with files and
// programs.
//
// Open loads programs for the kernel's security hooks (BPF LSM) or joins those that
// another process loaded, Kernel.Begin makes a control group a session with a policy, and
// Session.Apply swaps that policy whole while the session runs. A decision is made of the
// object: whatever name, link, mount, working folder or descriptor led to it, the rules of
// the object and of all folders above it are added up, and a forbid comes first. It
// promises that a session begins only after the kernel was seen to refuse what it must
// (a canary), that what was once in the session's group stays in the session, that a task
// whose session is gone opens nothing, and that what found no room in the record is counted.
//
// It compiles no policy and asks no person; it hides no name, and tells nothing of what a
// process may learn of a file without opening it. docs/kernel-policy.md says what is not
// stopped.
//
// Most readers want [Open], [Kernel.Begin] and [Policy].
package lsm

//go:generate ./generate
