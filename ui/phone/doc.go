// Package phone is where a phone reaches the questions that wait, after a person paired
// it: over a tunnel of the person's own, which ends at a port of 127.0.0.1.
//
// The promise: nothing listens unless a pairing waits or a device is paired. A code pairs
// one device, once, within two minutes, and only after the person compared a number on
// both screens. Every answer is signed by a key that no script of the device can read,
// over the question as it was shown and a challenge that counts once: what passed the
// tunnel is good for nothing else. Requests for another name than the tunnel's, and of
// another origin, are refused.
//
// It keeps no cookie and no session: each request is signed. It does not know what a
// question is about, and decides nothing: [Desk] does. Who ends TLS for the tunnel serves
// the pages too, and another page could do all that the device may (docs/window.md).
//
// Most readers want [Open], then [Door.Pair].
package phone
