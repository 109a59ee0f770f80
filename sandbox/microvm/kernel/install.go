package kernel

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Modules are those that a guest needs, where its kernel does not have them built in, with all
// that they need themselves.
func Modules() []string {
	return []string{"virtio_pci", "virtio_console", "virtiofs", "nf_tables", "nft_chain_nat", "nft_nat",
		"nft_reject_inet", "nfnetlink_log", "nft_log", "virtio_rng"}
}

// EngineModules are those that a private engine needs besides: without them a guest has none.
func EngineModules() []string {
	return []string{"overlay", "bridge", "veth", "nft_compat", "xt_nat", "xt_tcpudp"}
}

// optional are modules that a kernel may lack.
var optional = []string{"virtio_rng"}

// Installed is a kernel on disk.
type Installed struct {
	Dir     string   `json:"-"`
	Release string   `json:"release"`
	Image   string   `json:"image"`   // its digest; the file is named so
	Modules []Module `json:"modules"` // in the order in which they are inserted
	// Engine says that the modules of a private engine are among them.
	Engine bool `json:"engine,omitempty"`
	// Accelerated says on which kernel of the host a test guest booted with KVM; empty: on none.
	Accelerated string `json:"accelerated,omitempty"`
	// Templates says that a test guest was started from a template; otherwise each boots.
	Templates bool `json:"templates,omitempty"`
}

// Module is one of its modules.
type Module struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // the file is named so
	Engine bool   `json:"engine,omitempty"`
}

// manifest is the name of the file that lists the others.
const manifest = "kernel.json"

// Unpack gives what a program of that name, xz, makes of its standard input.
type Unpack func(in io.Reader) ([]byte, error)

// Install takes a kernel and its modules into a folder. image is the kernel's file, modules the
// folder with the modules of its release (/lib/modules/RELEASE).
func Install(dir, image, modules string, xz Unpack) (Installed, error) {
	k := Installed{Dir: dir, Release: filepath.Base(modules)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return k, err
	}
	text, err := os.ReadFile(image)
	if err != nil {
		return k, err
	}
	if k.Image, err = k.keep(text); err != nil {
		return k, err
	}
	s := &search{k: &k, xz: xz, files: map[string]string{}, builtin: map[string]bool{}, done: map[string]bool{}}
	if err := s.list(modules); err != nil {
		return k, err
	}
	for _, name := range Modules() {
		if err := s.take(name); err != nil && (!slices.Contains(optional, name) || !errors.Is(err, errLacks)) {
			return k, fmt.Errorf("%s has not what a guest needs: %w", modules, err)
		}
	}
	s.engine, k.Engine = true, true
	for _, name := range EngineModules() {
		if err := s.take(name); errors.Is(err, errLacks) {
			k.Engine = false
		} else if err != nil {
			return k, err
		}
	}
	return k, k.Write()
}

// Write writes the list of an installed kernel.
func (k Installed) Write() error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return place(k.Dir, manifest, append(text, '\n'))
}

// keep writes a file by its digest's name.
func (k *Installed) keep(text []byte) (digest string, err error) {
	sum := sha256.Sum256(text)
	digest = hex.EncodeToString(sum[:])
	return digest, place(k.Dir, digest, text)
}

// place writes a file as a whole.
func place(dir, name string, text []byte) error {
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

var errLacks = errors.New("no such module")

// search finds modules with all that they need.
type search struct {
	k       *Installed
	xz      Unpack
	files   map[string]string
	builtin map[string]bool
	done    map[string]bool
	engine  bool // what is taken now is for an engine
}

// plain is a module's name with one spelling.
func plain(name string) string { return strings.ReplaceAll(name, "-", "_") }

func (s *search) list(modules string) error {
	err := filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		if name, rest, ok := strings.Cut(filepath.Base(path), ".ko"); err == nil && ok && !d.IsDir() {
			if !slices.Contains([]string{"", ".xz", ".zst", ".gz"}, rest) {
				return nil
			}
			s.files[plain(name)] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(modules, "modules.builtin"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		s.builtin[plain(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko"))] = true
	}
	return nil
}

func (s *search) take(name string) error {
	if s.done[name] || s.builtin[name] {
		return nil
	}
	s.done[name] = true
	path, ok := s.files[name]
	if !ok {
		return fmt.Errorf("%w: %s", errLacks, name)
	}
	text, err := s.read(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	needs, err := dependencies(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, need := range needs {
		if err := s.take(plain(need)); err != nil {
			return err
		}
	}
	digest, err := s.k.keep(text)
	if err != nil {
		return err
	}
	s.k.Modules = append(s.k.Modules, Module{name, digest, s.engine})
	return nil
}

// maxModule bounds a module, unpacked.
const maxModule = 64 << 20

func (s *search) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch filepath.Ext(path) {
	case ".xz":
		return s.xz(f)
	case ".zst":
		z, err := zstd.NewReader(f)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(io.LimitReader(z, maxModule))
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(z, maxModule))
	}
	return io.ReadAll(io.LimitReader(f, maxModule))
}

// dependencies are the modules that one says it needs.
func dependencies(text []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("it is no module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for line := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(line), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
