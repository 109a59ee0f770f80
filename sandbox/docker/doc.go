// Package docker builds the enclosure of two containers of a Docker engine.
//
// It promises what sandbox.Driver promises. One container is the agent's: an
// image by its digest, read-only, with no capability, no network and our own
// system call filters. The other, the gate, holds nothing but this program; it
// makes the first one's network and finishes its mounts, tries nothing itself
// and answers to the shim alone. Both are ended with the shim and carry labels by
// which a crash's leftovers are found. It does not hold the engine to anything:
// whoever may speak to its socket is root on this host. Most readers want New.
package docker
