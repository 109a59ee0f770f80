// Package sock asks the kernel about sockets what net does not tell.
//
// Promise: nothing of a connection is consumed, and where there is no Linux a
// function says so or leaves the work to net.
//
// It does not read, judge or dial.
//
// Most readers want OriginalDst.
package sock
