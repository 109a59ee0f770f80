// Package landlock is the one table of Landlock rules of a cloister: which rights
// are handled on a kernel, which are granted on which path, and what is scoped.
//
// The promise: every driver that shares the host's kernel grants the same rights,
// and a right that no rule grants is refused on every kernel that knows it. The
// package decides nothing about paths: the caller names the places that may be
// written. Native writes the rules down as system calls of its own (Attr, Rules,
// Encode); a process that restricts itself calls Enter. Most readers want Rules.
package landlock
