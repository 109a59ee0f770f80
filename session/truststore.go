package session

import (
	"crypto/sha1" // the format's checksum; Java itself reads on without it
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"unicode/utf16"
)

// What a Java key store (JKS) says of itself. The password is what every JDK
// ships; it protects nothing.
const (
	javaMagic, javaVersion, javaTrusted = 0xfeedfeed, 2, 2
	javaPassword                        = "changeit"
	javaHead                            = 12 // magic, version, number of entries
)

// javaStore is the host's store of authorities for Java with more of them, PEM,
// in it: Java knows no PEM bundle and no variable. Where the host's store has
// another form, one is made of the host's bundle.
func (s *Shim) javaStore(more []byte) ([]byte, error) {
	store, err := os.ReadFile(s.Java)
	if err != nil {
		return nil, err
	}
	if !isJavaStore(store) {
		if s.CAFile != "" {
			bundle, err := os.ReadFile(string(s.CAFile))
			if err != nil {
				return nil, err
			}
			more = slices.Concat(bundle, []byte("\n"), more)
		}
		store = make([]byte, javaHead+sha1.Size)
		binary.BigEndian.PutUint32(store, javaMagic)
		binary.BigEndian.PutUint32(store[4:], javaVersion)
	}
	return extendJavaStore(store, more), nil
}

func isJavaStore(store []byte) bool {
	return len(store) >= javaHead+sha1.Size && binary.BigEndian.Uint32(store) == javaMagic && binary.BigEndian.Uint32(store[4:]) == javaVersion
}

// extendJavaStore adds authorities to a store and signs it anew.
func extendJavaStore(store, more []byte) []byte {
	store = store[:len(store)-sha1.Size]
	n := binary.BigEndian.Uint32(store[8:])
	for block, rest := pem.Decode(more); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		store = binary.BigEndian.AppendUint32(store, javaTrusted)
		store = appendText(store, fmt.Sprintf("cloister-%d", n))
		store = binary.BigEndian.AppendUint64(store, 0) // the time it was made
		store = appendText(store, "X.509")
		store = binary.BigEndian.AppendUint32(store, uint32(len(block.Bytes)))
		store = append(store, block.Bytes...)
	}
	binary.BigEndian.PutUint32(store[8:], n)
	sum := sha1.New()
	for _, unit := range utf16.Encode([]rune(javaPassword)) {
		_, _ = sum.Write(binary.BigEndian.AppendUint16(nil, unit)) // a hash takes all
	}
	_, _ = sum.Write([]byte("Mighty Aphrodite"))
	_, _ = sum.Write(store)
	return sum.Sum(store)
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
