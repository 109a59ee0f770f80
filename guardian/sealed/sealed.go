// Package sealed keeps what a session needs of its guardian after a restart, in the
// hands of someone who cannot read it.
//
// Promise: what is sealed is opened only by a guardian of the same instance, only for
// the session that it was sealed for, and only as it was; another session's, an altered
// one and one under another key are errors.
//
// It does not hold what it seals: the session's shim does, and gives it to the next
// guardian. The key lies in a file of the guardian's state folder, which no cloister
// sees; other processes of the same user can read it, as they can the guardian's memory
// by other ways.
//
// Most readers want [Key.Seal] and [Key.Open].
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"cloister/api"
	"cloister/internal/durable"
)

// Most bounds what a shim may bring back.
const Most = 256 << 10

// State is what is sealed.
type State struct {
	// Authority and HostKey are what the programs inside trust; HostKey is empty where
	// no rule reads SSH.
	Authority []byte `json:"authority"`
	HostKey   []byte `json:"host_key,omitempty"`
	// Secrets are the session's placeholders.
	Secrets []api.Placeholder `json:"secrets,omitempty"`
	// Values are what the secrets have been: a server may still say one that was refreshed
	// since, and the vault has the last alone.
	Values []Known `json:"values,omitempty"`
	// MemoryKey opens an image that is encrypted, whose seal this is.
	MemoryKey string `json:"memory_key,omitempty"`
	// Words is the digest of the words that the session was granted with.
	Words []byte `json:"words"`
}

// Known are the values that one secret has had, the oldest first.
type Known struct {
	Name   string   `json:"name"`
	Values [][]byte `json:"values"`
}

// MostValues bounds all values of a State, in bytes.
const MostValues = Most / 4

// A Key seals for all sessions of one instance. It is safe for use by several
// goroutines; its file is read, or made, when it is first needed.
type Key struct {
	Path string

	mu   sync.Mutex
	aead cipher.AEAD
}

const keySize = 32

func (k *Key) get() (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.aead != nil {
		return k.aead, nil
	}
	key, err := os.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keySize)
		_, _ = rand.Read(key) // never fails (crypto/rand)
		err = durable.WriteFile(k.Path, key, 0o600)
	}
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%s: %d bytes, want %d", k.Path, len(key), keySize)
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k.aead, err
}

// boundTo is what a seal is good for: one session, by its id.
func boundTo(id string) []byte { return []byte("cloister session state 1\n" + id) }

// Seal encrypts the state of the session with that id.
func (k *Key) Seal(id string, s State) ([]byte, error) {
	aead, err := k.get()
	if err != nil {
		return nil, fmt.Errorf("seal session state: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("seal session state: %w", err)
	}
	return aead.Seal(nil, nil, text, boundTo(id)), nil
}

// Open gives the state of the session with that id.
func (k *Key) Open(id string, sealed []byte) (State, error) {
	if len(sealed) == 0 {
		return State{}, errors.New("open session state: there is none")
	}
	if len(sealed) > Most {
		return State{}, fmt.Errorf("open session state: more than %d bytes", Most)
	}
	aead, err := k.get()
	if err != nil {
		return State{}, fmt.Errorf("open session state: %w", err)
	}
	text, err := aead.Open(nil, nil, sealed, boundTo(id))
	if err != nil {
		return State{}, errors.New("open session state: it is not this session's, or was not sealed by this instance")
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("open session state: %w", err)
	}
	return s, nil
}
