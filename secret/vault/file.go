package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloister/internal/durable"
	"cloister/secret"

	"filippo.io/age"
)

// File is the name of what a vault's folder holds the secrets in; it is written anew where
// one changes.
const File = "secrets.age"

func (v *Vault) reread() error {
	now, err := v.stat()
	if err != nil {
		return v.corrupt(err)
	}
	if unchanged(v.seen, now) {
		v.catchUp()
		return nil
	}
	fresh := &Vault{dir: v.dir, ring: v.ring, items: map[string]*held{}, revision: v.revision + 1}
	if now != nil {
		sealed, err := readBounded(v.file())
		if err == nil {
			err = fresh.read(sealed)
		}
		if err != nil {
			return v.corrupt(err)
		}
	}
	for name, h := range v.items {
		if h.unwritten != nil {
			v.aside[name] = h
		}
	}
	for name, h := range v.aside {
		// The file has it as it was before: that is worth nothing any more. It may have
		// it again only later, since a person who brings a vault back removes the broken one first.
		if there := fresh.items[name]; there != nil && there.sameLogin(h) {
			fresh.items[name] = h
			delete(v.aside, name)
		}
	}
	v.seen, v.key, v.inRing, v.items, v.revision = now, fresh.key, fresh.inRing, fresh.items, fresh.revision
	v.catchUp()
	return nil
}

// catchUp writes what could not be written when a login was renewed. Where that fails
// again, the login goes on saying why.
func (v *Vault) catchUp() {
	for _, h := range v.items {
		if h.unwritten != nil {
			_ = v.save() // unwritten reports it
			return
		}
	}
}

// stat is the file of the vault, nil where there is none.
func (v *Vault) stat() (os.FileInfo, error) {
	info, err := os.Lstat(v.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// unchanged reports whether no one wrote the file between two looks.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

func (v *Vault) file() string { return filepath.Join(v.dir, File) }

// read opens the sealed file and takes what is in it.
func (v *Vault) read(sealed []byte) error {
	if err := v.findKey(); err != nil {
		return err
	}
	text, err := unseal(sealed, v.key)
	if err != nil {
		return err
	}
	var file struct {
		Version int     `json:"v"`
		Secrets []entry `json:"secrets"`
	}
	// The text must never be in an error: it holds values.
	if json.Unmarshal(text, &file) != nil {
		return errors.New("what is in it is not what a vault holds")
	}
	if file.Version != version {
		return fmt.Errorf("version %d; this cloister reads version %d", file.Version, version)
	}
	for _, e := range file.Secrets {
		h := &held{Item: Item{Name: e.Name, Kind: secret.Kind(e.Kind), Command: e.Command, Login: e.Login, SetAt: e.SetAt},
			argv: e.Command, revision: v.revision}
		if len(e.Shown) > 0 {
			h.Command = e.Shown
		}
		if len(e.Command) > 0 {
			if h.Refresh, err = time.ParseDuration(e.Refresh); err != nil {
				return fmt.Errorf("secret %s: a refresh that is no time", e.Name)
			}
		} else {
			h.value = secret.Seal(e.Value)
		}
		v.items[e.Name] = h
	}
	return nil
}

// save writes all that is held. The caller has the lock, and undoes what it did
// after an error.
func (v *Vault) save() error {
	if now, err := v.stat(); err != nil || !unchanged(v.seen, now) {
		return fmt.Errorf("write the vault: another hand changed %s", v.file())
	}
	if v.key == nil {
		if err := v.makeKey(); err != nil {
			return err
		}
	}
	file := struct {
		Version int     `json:"v"`
		Secrets []entry `json:"secrets"`
	}{Version: version}
	for _, name := range v.names() {
		h := v.items[name]
		e := entry{Name: name, Kind: string(h.Kind), Command: h.argv, Login: h.Login, SetAt: h.SetAt}
		if !slices.Equal(h.argv, h.Command) {
			e.Shown = h.Command
		}
		if len(h.Command) > 0 {
			e.Refresh = h.Refresh.String()
		} else {
			e.Value = h.value.Reveal()
		}
		file.Secrets = append(file.Secrets, e)
	}
	text, err := json.Marshal(file)
	if err != nil {
		return errors.New("write the vault: a secret cannot be encoded")
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, v.key.Recipient())
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("encrypt the vault: %w", err)
	}
	if err := durable.WriteFile(v.file(), sealed.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	for _, h := range v.items {
		h.unwritten = nil
	}
	v.seen, err = v.stat()
	return err
}
