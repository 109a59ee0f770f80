// Package bases keeps what texts of a project were before they were changed: what a
// three-way merge starts from.
//
// The promise: a text that is given back is the one that was kept, whatever a crash, a full
// disk or another program did to the files; one that is not whole any more is not known.
// Texts that are kept together lie in one file, which is never written to again, so that
// many cost little more than one, and a copy of the folder is links.
//
// It does not decide which texts are worth it, and locks nothing: its caller does.
//
// The call most readers want is [Open].
package bases

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
)

// Kept are the texts in one folder.
type Kept struct {
	dir   string
	index map[string]place // by paths of the project
}

// place is where a text lies.
type place struct {
	Pack   string `json:"pack"`
	At     int64  `json:"at"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

const indexFile = "index.json"

// Bounds of what is read: a folder that came from elsewhere may hold anything.
const (
	maxIndex = 64 << 20
	maxText  = 64 << 20
)

// Open reads which texts a folder has. It may be absent.
func Open(dir string) (*Kept, error) {
	k := &Kept{dir: dir, index: map[string]place{}}
	text, err := ownfile.Read(filepath.Join(dir, indexFile), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kept texts: %w", err)
	}
	if exactjson.Unmarshal(text, &k.index) != nil || k.index == nil {
		k.index = map[string]place{} // torn by a crash: none is known
	}
	return k, nil
}

// Has reports whether the text of a path is kept.
func (k *Kept) Has(path string) bool {
	_, ok := k.index[path]
	return ok
}

// Len is how many texts are kept.
func (k *Kept) Len() int { return len(k.index) }

// Text gives the text of a path, where it is known.
func (k *Kept) Text(path string) (text string, known bool, err error) {
	p, ok := k.index[path]
	if !ok || !plain(p.Pack) || p.Size < 0 || p.Size > maxText || p.At < 0 {
		return "", false, nil
	}
	f, err := ownfile.Open(filepath.Join(k.dir, p.Pack))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read a kept text: %w", err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || p.Size > st.Size() {
		return "", false, err
	}
	b := make([]byte, p.Size)
	if _, err := f.ReadAt(b, p.At); err != nil || digest(b) != p.Digest {
		return "", false, nil
	}
	return string(b), true, nil
}

// plain reports whether a name is one of Keep's.
func plain(name string) bool { return filepath.Base(name) == name && filepath.Ext(name) == packEnd }

const packEnd = ".texts"

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Keep keeps texts by their paths.
func (k *Kept) Keep(texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("keep texts: %w", err)
	}
	name, all, places := rand.Text()+packEnd, []byte(nil), map[string]place{}
	for path, text := range texts {
		places[path] = place{name, int64(len(all)), int64(len(text)), digest([]byte(text))}
		all = append(all, text...)
	}
	at := filepath.Join(k.dir, name)
	if err := os.WriteFile(at, all, 0o600); err != nil {
		return errors.Join(fmt.Errorf("keep texts: %w", err), remove(at)) // a full disk has use for it
	}
	before := k.index
	k.index = maps.Clone(before)
	maps.Copy(k.index, places)
	if err := k.save(); err != nil {
		k.index = before
		return errors.Join(err, remove(at))
	}
	return k.sweep(before)
}

// Drop forgets the texts of paths.
func (k *Kept) Drop(paths []string) error {
	before := k.index
	k.index = maps.Clone(before)
	for _, p := range paths {
		delete(k.index, p)
	}
	if len(k.index) == len(before) {
		return nil
	}
	if err := k.save(); err != nil {
		k.index = before
		return err
	}
	return k.sweep(before)
}

// sweep removes the files of which no text is known any more.
func (k *Kept) sweep(before map[string]place) error {
	used := map[string]bool{}
	for _, p := range k.index {
		used[p.Pack] = true
	}
	var err error
	for _, p := range before {
		if !used[p.Pack] && plain(p.Pack) {
			used[p.Pack] = true
			err = errors.Join(err, remove(filepath.Join(k.dir, p.Pack)))
		}
	}
	return err
}

func (k *Kept) save() error {
	text, err := exactjson.Marshal(k.index)
	if err != nil {
		return err
	}
	at := filepath.Join(k.dir, indexFile)
	tmp := at + ".new"
	// Of a fork's folder this may be another name of a parent's file: it is made anew.
	if err := remove(tmp); err != nil {
		return fmt.Errorf("keep texts: %w", err)
	}
	if err = os.WriteFile(tmp, text, 0o600); err == nil {
		err = os.Rename(tmp, at)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep texts: %w", err), remove(tmp))
	}
	return nil
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Link gives an empty or absent folder the same texts.
func (k *Kept) Link(to string) error {
	if len(k.index) == 0 {
		return nil
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("keep texts: %w", err)
	}
	names := map[string]bool{indexFile: true}
	for _, p := range k.index {
		names[p.Pack] = plain(p.Pack)
	}
	for name, ours := range names {
		if !ours {
			continue
		}
		err := os.Link(filepath.Join(k.dir, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a text that is not known any more
			return fmt.Errorf("keep texts: %w", err)
		}
	}
	return nil
}
