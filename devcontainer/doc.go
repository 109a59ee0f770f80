// Package devcontainer reads a repository's devcontainer.json and all that it pulls in,
// and says what of it becomes of a cloister.
//
// The promise: every byte that counts is read once, through a root that no link leaves,
// and is what the digest names, so that a person's trust is in exactly these bytes;
// what is used is what was judged. Reading runs nothing, asks no network and writes
// nothing. The rooms below have one part each: jsonc reads, variables replaces, demand
// judges, metadata merges. The room does not know drivers, images or the guardian.
// Most readers want [Read].
package devcontainer
