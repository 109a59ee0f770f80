package phone

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"time"

	"cloister/internal/durable"
	"cloister/internal/ownfile"
)

// maxFile bounds the file of devices, in bytes; maxDevices how many there are.
const (
	maxFile    = 64 << 10
	maxDevices = 8
)

// Device is a phone that was paired.
type Device struct {
	Name   string    `json:"name"`
	Public []byte    `json:"public"` // SubjectPublicKeyInfo of a P-256 key
	Added  time.Time `json:"added"`
	Used   time.Time `json:"used"`

	gone bool // forgotten, though the file may still have it
}

// ID is the digest of the device's key.
func (d *Device) ID() string {
	sum := sha256.Sum256(d.Public)
	return hex.EncodeToString(sum[:])
}

// kept is the file: it has no secret.
type kept struct {
	Version int       `json:"version"`
	URL     string    `json:"url"` // the tunnel's address; devices keep their keys for it
	Port    int       `json:"port"`
	Devices []*Device `json:"devices"`
}

// read reads what an earlier door left; a file that is absent is an empty one.
func read(path string) (kept, error) {
	var k kept
	text, err := ownfile.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil || k.Version != 1 || len(k.Devices) > maxDevices {
		return kept{}, fmt.Errorf("%s does not say which devices are paired", path)
	}
	if u, err := address(k.URL); err != nil || u.String() != k.URL {
		return kept{}, fmt.Errorf("%s does not say which devices are paired: the address of a tunnel is %q", path, k.URL)
	}
	for i, d := range k.Devices {
		if d == nil || !nameForm().MatchString(d.Name) ||
			slices.ContainsFunc(k.Devices[:i], func(x *Device) bool { return x.Name == d.Name }) {
			return kept{}, fmt.Errorf("%s does not say which devices are paired", path)
		}
		if _, err := keyOf(d.Public); err != nil {
			return kept{}, fmt.Errorf("%s: device %q: %w", path, d.Name, err)
		}
	}
	return k, nil
}

// write writes what is not forgotten.
func (k *kept) write(path string) error {
	k.Version = 1
	left := *k
	left.Devices = slices.DeleteFunc(slices.Clone(k.Devices), func(d *Device) bool { return d.gone })
	text, err := json.Marshal(left)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}

// keyOf is a P-256 key.
func keyOf(public []byte) (*ecdsa.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(public)
	p, ok := parsed.(*ecdsa.PublicKey)
	if err != nil || !ok || p.Curve != elliptic.P256() {
		return nil, errors.New("want a P-256 key")
	}
	return p, nil
}

// signed reports whether the device signed what; signatures are r and s, 32 bytes each,
// as WebCrypto writes them.
func (d *Device) signed(what string, signature []byte) bool {
	public, err := keyOf(d.Public)
	if err != nil || len(signature) != 64 {
		return false
	}
	sum := sha256.Sum256([]byte(what))
	return ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}
