package session

import (
	"crypto/sha1" // the format's checksum; Java itself reads on without it
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"unicode/utf16"
)

// javaStore writes certificate authorities as Java's own key store (JKS), which
// every JDK reads as its trust store: Java knows no PEM bundle and no variable.
func javaStore(bundle []byte) []byte {
	const (
		magic, version, trusted = 0xfeedfeed, 2, 2
		password                = "changeit" // what every JDK ships; it protects nothing
	)
	var entries []byte
	n := uint32(0)
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		entries = binary.BigEndian.AppendUint32(entries, trusted)
		entries = appendText(entries, fmt.Sprintf("cloister-%d", n))
		entries = binary.BigEndian.AppendUint64(entries, 0) // the time it was made
		entries = appendText(entries, "X.509")
		entries = binary.BigEndian.AppendUint32(entries, uint32(len(block.Bytes)))
		entries = append(entries, block.Bytes...)
	}
	store := binary.BigEndian.AppendUint32(nil, magic)
	store = binary.BigEndian.AppendUint32(store, version)
	store = append(binary.BigEndian.AppendUint32(store, n), entries...)
	sum := sha1.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		_, _ = sum.Write(binary.BigEndian.AppendUint16(nil, unit)) // a hash takes all
	}
	_, _ = sum.Write([]byte("Mighty Aphrodite"))
	_, _ = sum.Write(store)
	return sum.Sum(store)
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
