package javastore

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/sandbox"
)

func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestJavaStore adds authorities to a store, and makes one where the host's has
// another form. That Java reads them is seen in cmd/cloister/realtest.
func TestJavaStore(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two, three := authority(t), authority(t), authority(t)
	bundle := write("bundle", bytes.Join([][]byte{one, two}, nil))
	content := func(s *Host, more, last []byte) []byte {
		t.Helper()
		s.Sums = filepath.Join(dir, "sums")
		f, err := s.File(more, last)
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.Content()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	made := content(&Host{Store: write("other", []byte("no store"))}, slices.Concat(one, two), nil)
	store := &Host{Store: write("store", made)}
	extended := content(store, nil, three)
	again := content(&Host{Store: write("other2", nil), Bundle: sandbox.HostPath(bundle)}, nil, three)
	if remembered := content(store, nil, three); !bytes.Equal(remembered, extended) {
		t.Error("with the checksum remembered another store is made")
	}
	if bytes.Equal(content(store, one, three), extended) {
		t.Error("a further authority changes nothing")
	}
	if none := content(store, nil, nil); !bytes.Equal(none, made) {
		t.Error("a store with nothing more is not the host's")
	}
	// Another store under the same name, and a memory that is spoilt.
	write("store", again)
	if other := content(store, nil, one); binary.BigEndian.Uint32(other[8:]) != 4 {
		t.Errorf("of a new store %d entries", binary.BigEndian.Uint32(other[8:]))
	}
	whole := content(store, nil, one)
	known, err := os.ReadFile(store.Sums)
	if err != nil {
		t.Fatal(err)
	}
	write("sums", known[:len(known)-1])
	if spoilt := content(store, nil, one); !bytes.Equal(spoilt, whole) {
		t.Error("a torn memory of the checksum is believed")
	}
	write("store", made)
	for name, tt := range map[string]struct {
		store []byte
		want  uint32
	}{"made": {made, 2}, "extended": {extended, 3}, "made of the bundle": {again, 3}} {
		if !isJavaStore(tt.store) || binary.BigEndian.Uint32(tt.store[8:]) != tt.want {
			t.Errorf("%s: % x, want %d entries", name, tt.store[:javaHead], tt.want)
		}
	}
	if !bytes.Equal(extended, again) {
		t.Error("a store that was extended is not the one made at once")
	}
	cut := len(extended) - sha1.Size
	if bytes.Equal(extended[cut:], made[len(made)-sha1.Size:]) {
		t.Error("the checksum did not change with the content")
	}
}
