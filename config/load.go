package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/internal/source"
)

// Sources are the files that a configuration came from.
type Sources struct {
	// File is where config.yaml is or would be; Found reports whether it is.
	File  string
	Found bool
	// Cedar are the person's policy files, by name.
	Cedar []CedarFile
}

// CedarFile is one policy file as it lies on disk.
type CedarFile struct {
	Name string // its path
	Text []byte
}

// Load reads config.yaml and policy/*.cedar below dir. A missing folder or file
// means the defaults; one that is there and cannot be read is an error, because
// a deny might stand in it.
func Load(dir string) (*Config, Sources, error) { return LoadWith(dir, nil) }

// LoadWith is Load as if the files of these paths held other texts: what would
// become of a draft.
func LoadWith(dir string, instead map[string][]byte) (*Config, Sources, error) {
	s := Sources{File: filepath.Join(dir, "config.yaml")}
	text, err := readOr(s.File, instead)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s, err
	}
	s.Found = err == nil
	c, errConfig := Parse(s.File, text)
	var errCedar error
	s.Cedar, errCedar = loadCedar(filepath.Join(dir, "policy"), instead)
	if err := errors.Join(errConfig, errCedar); err != nil {
		return nil, s, err
	}
	return c, s, nil
}

// Fingerprint changes whenever a file that Load reads does: it tells their names,
// sizes, times and inodes. It costs a few system calls.
func Fingerprint(dir string) string {
	var b strings.Builder
	note := func(name string) {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintln(&b, err)
			return
		}
		inode := uint64(0)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = st.Ino
		}
		fmt.Fprintln(&b, name, inode, info.Mode(), info.Size(), info.ModTime().UnixNano())
	}
	note(filepath.Join(dir, "config.yaml"))
	entries, err := os.ReadDir(filepath.Join(dir, "policy"))
	fmt.Fprintln(&b, err)
	for _, e := range entries {
		note(filepath.Join(dir, "policy", e.Name()))
	}
	return b.String()
}

func loadCedar(dir string, instead map[string][]byte) ([]CedarFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Join(dir, e.Name()))
	}
	for name := range instead {
		if filepath.Dir(name) == dir && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var files []CedarFile
	for _, name := range names {
		if !strings.HasSuffix(name, ".cedar") || strings.HasPrefix(filepath.Base(name), ".") {
			continue
		}
		text, err := readOr(name, instead)
		if err != nil {
			return nil, err
		}
		files = append(files, CedarFile{Name: name, Text: text})
	}
	return slices.Clip(files), nil
}

// readOr reads a file, or what stands in its place.
func readOr(name string, instead map[string][]byte) ([]byte, error) {
	text, ok := instead[name]
	switch {
	case !ok:
		return readFile(name)
	case len(text) > MaxFile:
		return nil, &source.Problem{Position: source.Position{File: name}, Msg: fmt.Sprintf("larger than %d bytes", MaxFile)}
	}
	return text, nil
}

// readFile reads a small regular file. O_NONBLOCK, or opening a pipe that lies
// there would wait for ever.
func readFile(name string) ([]byte, error) { return readWith(name, 0) }

// readWith reads a file with further flags of its opening.
func readWith(name string, flags int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, errLink := os.Lstat(name); errLink == nil {
			return nil, &source.Problem{Position: source.Position{File: name}, Msg: "a symbolic link to nowhere"}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &source.Problem{Position: source.Position{File: name}, Msg: "not a regular file"}
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, &source.Problem{Position: source.Position{File: name}, Msg: "everybody on this machine may write it",
			Hint: "chmod o-w " + name}
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > MaxFile {
		return nil, &source.Problem{Position: source.Position{File: name}, Msg: fmt.Sprintf("larger than %d bytes", MaxFile)}
	}
	return text, nil
}
