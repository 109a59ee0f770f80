// Package web is the window's door: the pages a browser is given, with the proof
// of whose browser it is.
//
// The promise: nothing but the login page is answered to a browser that did not
// come by a link which its owner was given; a request of another page, of another
// name for this host, or with a stolen cookie alone is refused; every answer
// forbids what the pages do not need. A link works once and for a minute. What is
// kept on disk lets no one in: it holds public keys.
//
// How a browser is known: at its first visit it makes a key pair that no script
// can read, and trades the link for the guardian's knowledge of the public key.
// Later, after a reload or a restart of the guardian, it signs a challenge, which
// names the address that it sees, so that a program which took the address
// meanwhile cannot pass the signature on. It gets a cookie and a word for a
// header; both are of this run of the guardian, and a request needs both: other
// ports of this host get the cookie too (RFC 6265 8.5), and the word no one.
//
// It does not know what the pages ask for: the guardian's table of routes does.
// It needs no build step; the modules are served as they are written.
//
// Most readers want [Open], then [Door.Handler].
package web
