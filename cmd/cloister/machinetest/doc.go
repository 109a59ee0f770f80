// Package machinetest drives the built binary on the level microvm: what a person sees of a
// machine of its own, and a private engine in one.
//
// The promise: each look is at the product's own words, files and record, with one boot for
// many of them. It needs QEMU and a kernel for guests (script/test microvm), holds tests only, and
// does not repeat what sandbox/microvm's own tests look at. Most readers want newWorld.
package machinetest
