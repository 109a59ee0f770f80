// Package refuse says what an engine cannot do for a cloister, before one is made by it.
//
// The promise: each refusal is by what the engine answered, and names what would fix it.
//
// It asks no engine: sandbox/docker does.
//
// Most readers want [Spaces].
package refuse
