package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"cloister/internal/durable"
	"cloister/internal/random"
)

const (
	// maxKeys bounds the browsers; the one that was away longest goes first.
	maxKeys = 16
	// keyLife is how long a browser may be away.
	keyLife = 7 * 24 * time.Hour
	// maxFile bounds the file of keys, in bytes.
	maxFile = 64 << 10
)

// key is one browser.
type key struct {
	ID     string    `json:"id"` // digest of the public key
	Public []byte    `json:"public"`
	Used   time.Time `json:"used"`

	public       *ecdsa.PublicKey
	cookie, word string // of this run
}

// keyring is the browsers that were let in, as the file has them.
type keyring struct {
	path string

	mu   sync.Mutex
	port int
	keys []*key
}

// kept is the file.
type kept struct {
	Version int    `json:"version"`
	Port    int    `json:"port"`
	Keys    []*key `json:"keys"`
}

func keysFile(dir string) string { return filepath.Join(dir, "window.json") }

// readKeys reads what an earlier door left. A file that says nothing sound is as
// none: its browsers need another link.
func readKeys(dir string, now time.Time) (*keyring, int, error) {
	ring := &keyring{path: keysFile(dir)}
	f, err := os.OpenFile(ring.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ring, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok ||
		int(st.Uid) != os.Getuid() {
		return nil, 0, fmt.Errorf("%s is not a file of this user's alone", ring.path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, 0, err
	}
	var was kept
	if json.Unmarshal(text, &was) != nil || was.Version != 1 || was.Port < 1 || was.Port > 65535 {
		return ring, 0, nil
	}
	for _, k := range was.Keys {
		if k == nil {
			continue
		}
		if known, err := newKey(k.Public, k.Used); err == nil && now.Sub(k.Used) < keyLife {
			ring.keys = append(ring.keys, known)
		}
	}
	ring.keys = ring.keys[:min(len(ring.keys), maxKeys)]
	return ring, was.Port, nil
}

func newKey(public []byte, used time.Time) (*key, error) {
	parsed, err := x509.ParsePKIXPublicKey(public)
	p, ok := parsed.(*ecdsa.PublicKey)
	if err != nil || !ok || p.Curve != elliptic.P256() {
		return nil, refuse(http.StatusBadRequest, "login: want a P-256 key")
	}
	sum := sha256.Sum256(public)
	word := func() string { return random.Word(32) }
	return &key{ID: hex.EncodeToString(sum[:]), Public: public, Used: used, public: p, cookie: word(), word: word()}, nil
}

// movedTo is where the door is now; last is where it was.
func (r *keyring) movedTo(port, last int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.port = port; port != last {
		r.keys = nil
	}
	return r.save()
}

// save writes the file: whole, or not at all.
func (r *keyring) save() error {
	text, err := json.Marshal(kept{Version: 1, Port: r.port, Keys: r.keys})
	if err != nil {
		return fmt.Errorf("keep the browsers: %w", err)
	}
	if err := durable.WriteFile(r.path, text, 0o600); err != nil {
		return fmt.Errorf("keep the browsers: %w", err)
	}
	return nil
}

// add lets a browser in.
func (r *keyring) add(public []byte, now time.Time) (*key, error) {
	k, err := newKey(public, now)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.keys {
		if known.ID == k.ID {
			known.Used = now
			return known, r.save()
		}
	}
	r.keys = append(r.keys, k)
	slices.SortStableFunc(r.keys, func(a, b *key) int { return b.Used.Compare(a.Used) })
	r.keys = r.keys[:min(len(r.keys), maxKeys)]
	return k, r.save()
}

// signed is the browser that signed what, nil for none.
func (r *keyring) signed(id string, what, signature []byte, now time.Time) *key {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		if k.ID != id || len(signature) != 64 || now.Sub(k.Used) >= keyLife {
			continue
		}
		sum := sha256.Sum256(what)
		a, b := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		if !ecdsa.Verify(k.public, sum[:], a, b) {
			return nil
		}
		r.used(k, now)
		return k
	}
	return nil
}

// here notes that a browser is not away.
func (r *keyring) here(k *key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used(k, now)
}

// used is here, for the holder of the lock.
func (r *keyring) used(k *key, now time.Time) {
	if now.Sub(k.Used) > time.Hour {
		k.Used = now
		_ = r.save() // the browser is known all the same; its week began earlier
	}
}

// byCookie compares every cookie, so time tells nothing of one.
func (r *keyring) byCookie(cookie string, now time.Time) *key {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *key
	for _, k := range r.keys {
		if subtle.ConstantTimeCompare([]byte(k.cookie), []byte(cookie)) == 1 && now.Sub(k.Used) < keyLife {
			found = k
		}
	}
	return found
}

func (r *keyring) remove(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = slices.DeleteFunc(r.keys, func(k *key) bool { return k.ID == id })
	return r.save()
}
