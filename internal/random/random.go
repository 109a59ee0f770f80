// Package random makes bytes and words that cannot be guessed.
//
// The promise: they come of the system's own generator alone (crypto/rand), which never
// fails without ending the program. It keeps nothing, and compares nothing.
package random

import (
	"crypto/rand"
	"encoding/base64"
)

// Bytes are n bytes.
func Bytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails (crypto/rand)
	return b
}

// Word is n bytes as text that may stand in an address, a cookie and a file's name.
func Word(n int) string { return base64.RawURLEncoding.EncodeToString(Bytes(n)) }
