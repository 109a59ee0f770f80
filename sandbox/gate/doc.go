// Package gate says what the only network of a cloister is made of: the kernel's
// messages, rules and sockets.
//
// Every address is local inside, TCP and DNS go to the sockets listed here, the
// rest is refused at once. The package opens and sends nothing itself: each
// driver does, in its own way. Most readers want Messages.
package gate
