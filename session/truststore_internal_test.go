package session

import (
	"bytes"
	"cloister/sandbox"
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
	"testing"
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
	made, err := (&Shim{Java: write("other", []byte("no store"))}).javaStore(bytes.Join([][]byte{one, two}, nil))
	if err != nil {
		t.Fatal(err)
	}
	extended, err := (&Shim{Java: write("store", made)}).javaStore(three)
	if err != nil {
		t.Fatal(err)
	}
	again, err := (&Shim{Java: write("other2", nil), CAFile: sandbox.HostPath(bundle)}).javaStore(three)
	if err != nil {
		t.Fatal(err)
	}
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
