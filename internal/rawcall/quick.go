// Package rawcall makes and removes names in folders without a word to the
// scheduler.
//
// Go takes a processor away from a system call that lasts more than 20 µs and
// gives it back later, which costs more than the call. These calls last about
// that long, and a start makes forty of them in a row: 2.7 ms became 1.
//
// A folder on a slow network file system holds a processor up for as long as a
// call takes. That is the price, so this is for a few calls in a short program.
//
// Most readers want [Mkdirat] and [Unlinkat].
package rawcall
