// Package kernel keeps what a guest is booted from: a distribution's kernel with the few modules
// that a guest needs, each known by its digest, and the initrd that is made of them and of this
// program.
//
// The promise: what is booted has the digests that were written down when it was installed, or
// nothing is. It does not say whose kernel it is: whoever calls [Install] vouches for it. Most
// readers want [Load].
package kernel
