package snapshots

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cloister/serve/tenants"
)

// Keys are those of a cell's servers: the first is for what is kept from now on, all are for what is there.
type Keys struct{ list []key }

type key struct {
	id     string // what the database calls it
	secret []byte
}

// Bounds of a file of keys.
const (
	keyBytes = 32
	mostKeys = 16
)

// ReadKeys reads a file with a key in each line, as 64 hexadecimal digits. Other users must not be able to read it.
func ReadKeys(file string) (*Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read keys of snapshots: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read keys of snapshots: %w", err)
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read keys of snapshots: %s: other users can read it, or it is no file: chmod 600", file)
	}
	text := make([]byte, mostKeys*128+1)
	n, err := f.Read(text)
	if err != nil || n == len(text) {
		return nil, fmt.Errorf("read keys of snapshots: %s: want 1 to %d lines: %w", file, mostKeys, err)
	}
	var out Keys
	for line := range bytes.Lines(text[:n]) {
		secret, err := hex.DecodeString(strings.TrimSpace(string(line)))
		if err != nil || len(secret) != keyBytes {
			return nil, fmt.Errorf("read keys of snapshots: %s: a line is no key of %d hexadecimal digits, "+
				"as openssl rand -hex %d prints it", file, 2*keyBytes, keyBytes)
		}
		out.list = append(out.list, key{hex.EncodeToString(sum(secret, "which key")[:8]), secret})
	}
	return &out, nil
}

func sum(secret []byte, text string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// current is the key for what is kept now.
func (k *Keys) current() string { return k.list[0].id }

// sealer has what is derived of a key for one tenant of a cell. Two tenants have no names and no
// lengths of chunks in common, also of what is the same.
type sealer struct {
	names []byte // of the chunks' names
	aead  cipher.AEAD
	gear  [256]uint64 // where a stream is cut
}

// errKey says that an object was sealed by a key that this server has not.
var errKey = errors.New("it was sealed by a key that this server does not have: --snapshot-keys")

// of derives what is for a tenant. One that was removed and added again is another.
func (k *Keys) of(id, cell string, t tenants.Tenant) (*sealer, error) {
	for _, one := range k.list {
		if one.id != id {
			continue
		}
		whose := t.Name + " " + t.Created.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) // as the database has it
		derive := func(what string, n int) ([]byte, error) {
			return hkdf.Key(sha256.New, one.secret, []byte(cell), "cloister snapshots: "+what+" of "+whose, n)
		}
		names, err := derive("names", keyBytes)
		sealing, serr := derive("seals", keyBytes)
		cuts, cerr := derive("cuts", 256*8)
		if err := errors.Join(err, serr, cerr); err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(sealing)
		if err != nil {
			return nil, err
		}
		s := &sealer{names: names}
		for i := range s.gear {
			s.gear[i] = binary.LittleEndian.Uint64(cuts[8*i:])
		}
		s.aead, err = cipher.NewGCMWithRandomNonce(block) // 2^32 objects of a tenant at most
		return s, err
	}
	return nil, errKey
}

// name is that of a chunk: of its bytes, and of nothing that another tenant could know.
func (s *sealer) name(chunk []byte) string {
	h := hmac.New(sha256.New, s.names)
	h.Write(chunk)
	return hex.EncodeToString(h.Sum(nil))
}

// seal encrypts an object that is good at one place alone.
func (s *sealer) seal(place string, text []byte) []byte {
	return s.aead.Seal(nil, nil, text, []byte(place))
}

// open decrypts it.
func (s *sealer) open(place string, sealed []byte) ([]byte, error) {
	text, err := s.aead.Open(nil, nil, sealed, []byte(place))
	if err != nil {
		return nil, errors.New("it is not what this tenant's servers sealed for that place")
	}
	return text, nil
}

// overhead is what sealing adds, in bytes.
const overhead = 12 + 16
