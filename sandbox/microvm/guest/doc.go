// Package guest is the first process of a guest: it makes what its monitor says of the kernel
// that it runs on, starts commands, and hands every connection on to its monitor.
//
// The promise is the enclosure's around the guest, not the guest's: what this process holds
// inside, that a command cannot become root, trace another or reach its first process, is a
// second wall. It holds no secret, and stops the guest when its monitor is gone. Most readers
// want [Main].
package guest

// Name is what the program is called in a guest; by it main knows what to be.
const Name = "cloister-guest"
