// Package relay copies between a caller's terminal and a cloister's own.
//
// The payload never holds a descriptor of the caller's, and what it writes is
// filtered on the way (internal/termsafe). The terminal is given back as it was.
// Most readers want New.
package relay
