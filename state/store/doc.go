// Package store keeps overlay workspaces on disk: for each cloister the layers that hold
// what it changed, its checkpoints and the journals of what was applied.
//
// The promise: what a cloister wrote stays until a person applies or discards it, over a
// stop, a crash and a restart of the machine. A checkpoint names layers that nothing
// writes to any more; restoring or forking one mounts the same layers again and copies
// nothing. Every change of the store's own files is atomic, under a lock for each
// workspace, and a restore never loses what was there: it makes a checkpoint first.
//
// It mounts nothing (the driver does, from [Mount]), judges nothing and writes no audit:
// the guardian does. The layers are the only part that a payload can write, through the
// overlay; names and descriptions lie beside them, outside every mount.
//
// Most readers want [Open] and [Store.Begin].
package store
