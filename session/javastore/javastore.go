// Package javastore makes the store of authorities that Java inside trusts.
//
// The promise: the store has the host's authorities and further ones, in the form that
// every JDK reads. It checks no certificate, and writes nothing but the checksum that it
// remembers. Most readers want [Host.File].
package javastore

import (
	"bytes"
	"crypto/sha1" // the format's checksum; Java itself reads on without it
	"encoding"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"slices"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/sandbox"
)

// What a Java key store (JKS) says of itself. The password is what every JDK
// ships; it protects nothing.
const (
	javaMagic, javaVersion, javaTrusted = 0xfeedfeed, 2, 2
	javaPassword                        = "changeit"
	javaHead                            = 12 // magic, version, number of entries
)

// Path is where Java inside finds the store.
const Path = "/etc/ssl/certs/java/cacerts"

// OfHost is where this host's Java looks for authorities, where Debian and its kin keep them
// for it; "" where there is none.
func OfHost() string {
	if _, err := os.Stat(Path); err != nil {
		return ""
	}
	return Path
}

// A Host is what a host has of authorities.
type Host struct {
	Store  string           // for Java
	Bundle sandbox.HostPath // PEM; "" for none
	Sums   string           // the file that remembers the store's checksum
}

// File is the host's store of authorities for Java with more of them, PEM, in
// it: Java knows no PEM bundle and no variable. last is the session's own. Where
// the host's store has another form, one is made of the host's bundle.
//
// The kernel copies the host's part, and its checksum is remembered: to read and
// sum 160 KB cost each start 0.9 ms.
func (h Host) File(more, last []byte) (sandbox.File, error) {
	file := sandbox.File{Path: Path, Mode: 0o644}
	_, coming := javaEntries(last, 0)
	begun, n, size, err := h.sum(more, coming)
	if err != nil {
		return file, err
	}
	if begun == nil {
		bundle := []byte(nil)
		if h.Bundle != "" {
			if bundle, err = os.ReadFile(string(h.Bundle)); err != nil {
				return file, err
			}
		}
		entries, count := javaEntries(slices.Concat(bundle, []byte("\n"), more, last), 0)
		file.Data = append(javaHeader(count), entries...)
		sum := javaPhrase()
		_, _ = sum.Write(file.Data) // a hash takes all
		file.Data = sum.Sum(file.Data)
		return file, nil
	}
	entries, count := javaEntries(more, n)
	own, count := javaEntries(last, count)
	_, _ = begun.Write(own)
	file.Head = javaHeader(count)
	file.From, file.Skip, file.Size = sandbox.HostPath(h.Store), javaHead, size-javaHead-sha1.Size
	file.Data = begun.Sum(append(entries, own...))
	return file, nil
}

// sum is the checksum of the host's store with more in it and some to come,
// the number of its entries and its size; nil where the host's has another form.
func (h Host) sum(more []byte, coming uint32) (sum hash.Hash, n uint32, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(h.Store, &st); err != nil {
		return nil, 0, 0, &fs.PathError{Op: "stat", Path: h.Store, Err: err}
	}
	key := fmt.Sprintf("%s %d %d %d %d %d %d %x\n", h.Store, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano(),
		coming, sha1.Sum(more))
	sum = sha1.New()
	if known, err := os.ReadFile(h.Sums); err == nil {
		if state, ok := bytes.CutPrefix(known, []byte(key)); ok && len(state) > 4 {
			if restored, ok := sum.(encoding.BinaryUnmarshaler); ok && restored.UnmarshalBinary(state[4:]) == nil {
				return sum, binary.BigEndian.Uint32(state), st.Size, nil
			}
		}
	}
	store, err := os.ReadFile(h.Store)
	if err != nil {
		return nil, 0, 0, err
	}
	if !isJavaStore(store) || int64(len(store)) != st.Size {
		return nil, 0, 0, nil
	}
	n = binary.BigEndian.Uint32(store[8:])
	entries, count := javaEntries(more, n)
	sum = javaPhrase()
	for _, part := range [][]byte{javaHeader(count + coming), store[javaHead : len(store)-sha1.Size], entries} {
		_, _ = sum.Write(part)
	}
	if kept, ok := sum.(encoding.BinaryAppender); ok {
		text := binary.BigEndian.AppendUint32([]byte(key), n)
		if text, err = kept.AppendBinary(text); err == nil {
			_ = durable.WriteFile(h.Sums, text, 0o600) // without it the next start sums again
		}
	}
	return sum, n, st.Size, nil
}

func isJavaStore(store []byte) bool {
	return len(store) >= javaHead+sha1.Size && binary.BigEndian.Uint32(store) == javaMagic &&
		binary.BigEndian.Uint32(store[4:]) == javaVersion
}

func javaHeader(entries uint32) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, javaHead), javaMagic)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, javaVersion), entries)
}

// javaEntries writes the certificates of a PEM text, numbered on from n.
func javaEntries(text []byte, n uint32) ([]byte, uint32) {
	var b []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		b = binary.BigEndian.AppendUint32(b, javaTrusted)
		b = appendText(b, fmt.Sprintf("cloister-%d", n))
		b = binary.BigEndian.AppendUint64(b, 0) // the time it was made
		b = appendText(b, "X.509")
		b = binary.BigEndian.AppendUint32(b, uint32(len(block.Bytes)))
		b = append(b, block.Bytes...)
	}
	return b, n
}

// javaPhrase begins the checksum of a store.
func javaPhrase() hash.Hash {
	sum := sha1.New()
	for _, unit := range utf16.Encode([]rune(javaPassword)) {
		_, _ = sum.Write(binary.BigEndian.AppendUint16(nil, unit))
	}
	_, _ = sum.Write([]byte("Mighty Aphrodite"))
	return sum
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
