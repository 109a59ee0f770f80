package devcontainer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// The bounds of what a devcontainer pulls in.
const (
	maxFiles = 2000
	maxBytes = 16 << 20
)

// Pulled is one file that a devcontainer pulls in.
type Pulled struct {
	Path   string `json:"path"`
	Size   int    `json:"size"`
	Digest string `json:"digest"`
}

// file is one that was read. A link is known by where it leads, and is not followed.
type file struct {
	text []byte
	mode fs.FileMode
	link string
}

// files are those that were read, by their path from the project's top.
type files struct {
	root *os.Root
	all  map[string]file
	size int
}

// read reads one file, once.
func (f *files) read(name string) ([]byte, error) {
	name = path.Clean(name)
	if known, ok := f.all[name]; ok {
		return known.text, nil
	}
	// A pipe in its place is opened without waiting for its other end.
	h, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	fi, err := h.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is no file", name)
	}
	text, err := io.ReadAll(io.LimitReader(h, int64(maxBytes-f.size)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, f.keep(name, file{text: text, mode: fi.Mode().Perm() & 0o111})
}

func (f *files) keep(name string, one file) error {
	if f.size += len(one.text); f.size > maxBytes {
		return fmt.Errorf("read %s: the devcontainer pulls in more than %d MiB", name, maxBytes>>20)
	}
	if len(f.all) == maxFiles {
		return fmt.Errorf("read %s: the devcontainer pulls in more than %d files", name, maxFiles)
	}
	f.all[name] = one
	return nil
}

// folder reads all files of a folder and of those in it.
func (f *files) folder(dir string) error {
	return fs.WalkDir(f.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case e.IsDir():
			return nil
		case e.Type() == fs.ModeSymlink:
			to, err := f.root.Readlink(name)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			if _, known := f.all[name]; known {
				return nil // read through the link already: its bytes count
			}
			return f.keep(name, file{link: to})
		case !e.Type().IsRegular():
			return nil // nothing that a build or a cloister reads
		}
		_, err = f.read(name)
		return err
	})
}

// pulled lists the files, and digest names them all.
func (f *files) pulled() []Pulled {
	var out []Pulled
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		one := f.all[name]
		out = append(out, Pulled{name, len(one.text), one.digest()})
	}
	return out
}

func (o file) digest() string {
	sum := sha256.Sum256(append([]byte(o.link+"\x00"), o.text...))
	return hex.EncodeToString(sum[:])
}

func (f *files) digest() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		one := f.all[name]
		fmt.Fprintf(h, "%q %o %s\n", name, one.mode, one.digest())
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// relative is a path that a file of a folder names, from the project's top.
func relative(dir, named string) (string, error) {
	if path.IsAbs(named) {
		return "", errors.New("it is an absolute path; a devcontainer names files by their place in the project")
	}
	at := path.Join(dir, named)
	if at == ".." || strings.HasPrefix(at, "../") {
		return "", errors.New("it is outside the project")
	}
	return at, nil
}
