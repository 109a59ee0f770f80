// Package template keeps machines as they stand before anything of a session came into them, so that
// others begin there instead of booting.
//
// The promise: what a machine begins from is byte for byte what was kept, by its digest, or the machine
// does not begin; a file that another user could write is refused. It is no older than [Lasts], and there
// are at most [Most]. It knows neither what a machine is nor what makes two of one shape. Most readers
// want [Store].
package template
