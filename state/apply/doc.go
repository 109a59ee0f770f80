// Package apply brings changes into a project, all of them or none, and takes them back.
//
// The promise: before a file of the project is touched, the new content lies beside it
// on the same file system, durable, and a journal says what is to be done. Every step is
// one rename that the kernel makes atomically, and what was there before is kept, not
// overwritten: a file that was changed meanwhile by someone else is put back, and so is
// everything before it. After a crash [Recover] finishes a journal or rolls it back.
// Nothing is written through a symbolic link, and nothing but files, folders and links
// is made, without set-id bits, extended attributes or access control lists, and no
// folder that is closed to its owner.
//
// It does not decide what may be applied: its caller chooses the steps.
//
// The calls most readers want are [Start] and [Journal.Undo].
package apply
