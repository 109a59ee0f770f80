package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/internal/durable"
	"cloister/internal/xdg"

	"filippo.io/age"
)

// A Keyring keeps one text under one name. *SystemKeyring is one.
type Keyring interface {
	Get(account string) (string, error)
	Set(account, text string) error
}

// ErrNoKey says that the keyring works and has nothing of that name.
var ErrNoKey = errors.New("the keyring has no such entry")

func (v *Vault) keyFile() string { return filepath.Join(v.dir, keyName) }

func (v *Vault) account() string { return accountOf(v.dir) }

func accountOf(dir string) string { return "vault " + dir }

// Protection says in words for a person what keeps the values.
func (v *Vault) Protection() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.key == nil && v.ring == nil:
		return "nothing is kept yet; the key will lie in " + v.keyFile() +
			", which only you may read: there is no keyring here"
	case v.key == nil:
		return "nothing is kept yet; the key will lie in the system's keyring"
	case v.inRing:
		return v.file() + ", encrypted with age; the key lies in the system's keyring, which your login opens"
	}
	return v.file() + ", encrypted with age; the key lies beside it in " + keyName +
		", which only you may read: it guards a copy of the vault alone, not against programs of yours or root"
}

// findKey gets the key of a vault that exists: the file's where there is one,
// else the keyring's.
func (v *Vault) findKey() error {
	text, err := readBounded(v.keyFile())
	where := v.keyFile()
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return &keyError{why: "its key cannot be read: " + err.Error()}
	case v.ring == nil:
		return &keyError{why: "its key is neither in " + v.keyFile() + " nor in a keyring, of which this host has none now"}
	default:
		kept, err := v.ring.Get(v.account())
		if err != nil {
			return &keyError{
				why:    "its key is not in " + v.keyFile() + ", and the keyring gave none: " + err.Error(),
				locked: !errors.Is(err, ErrNoKey),
			}
		}
		text, v.inRing, where = []byte(kept), true, "the keyring"
	}
	// The error of the parser could quote the key.
	key, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		return &keyError{why: "what " + where + " holds is no key of a vault"}
	}
	v.key = key
	return nil
}

// makeKey makes the key of a new vault.
func (v *Vault) makeKey() error {
	if err := xdg.Private(v.dir, os.Getuid()); err != nil {
		return fmt.Errorf("make the vault: %w", err)
	}
	if _, err := os.Lstat(v.keyFile()); err == nil {
		return v.findKey() // of a vault that was moved away
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("make the vault's key: %w", err)
	}
	if v.ring != nil {
		// One of a vault that was moved away: its key must not be lost.
		kept, err := v.ring.Get(v.account())
		if old, bad := age.ParseX25519Identity(strings.TrimSpace(kept)); err == nil && bad == nil {
			v.key, v.inRing = old, true
			return nil
		}
		if errors.Is(err, ErrNoKey) && v.ring.Set(v.account(), key.String()) == nil {
			v.key, v.inRing = key, true
			return nil
		}
		// A keyring that is locked or broken, and may hold such a key: the file is the
		// way left, and Protection says so.
	}
	if err := durable.WriteFile(v.keyFile(), []byte(key.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the vault's key: %w", err)
	}
	v.key = key
	return nil
}
