// Package wire reads the first bytes of what a hostile peer sends: a TLS
// ClientHello, an HTTP/1 head, a chunk line, a SOCKS5 greeting.
//
// Promise: every reader is bounded, never guesses, and accepts one spelling
// only; a form that two programs could read in two ways is an error that says
// which form it was. Nothing here panics on any input (fuzzed).
//
// It does NOT do input or output, judge a destination, or know the rooms that
// use it.
//
// Most readers want ParseRequest, ParseResponse and HelloScan.
package wire

import "errors"

// ErrShort asks for more bytes: what is there is a right beginning.
var ErrShort = errors.New("more bytes are needed")

// MaxHello bounds a ClientHello with its record headers. The largest real ones
// (post-quantum key shares, tickets) are near 2 KiB; servers stop at 16–64 KiB.
const MaxHello = 64 << 10

// MaxHead bounds an HTTP head, request or response, first line included.
const MaxHead = 64 << 10

// MaxChunkLine bounds a chunk's size line with its extensions (CVE-2023-39326
// was about unbounded ones).
const MaxChunkLine = 4 << 10
