package kernel

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNone says that no kernel is installed.
var ErrNone = errors.New("no kernel for guests is installed")

// Load reads an installed kernel and holds every file to its digest.
func Load(dir string) (Installed, error) {
	k := Installed{Dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, manifest))
	if errors.Is(err, fs.ErrNotExist) {
		return k, ErrNone
	}
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return k, fmt.Errorf("read %s: %w", filepath.Join(dir, manifest), err)
	}
	k.Dir = dir
	_, err = k.file(k.Image)
	return k, err
}

// ImageFile is the kernel's file.
func (k Installed) ImageFile() string { return filepath.Join(k.Dir, k.Image) }

// file reads one of the kernel's files, which must be what it was.
func (k Installed) file(digest string) ([]byte, error) {
	if len(digest) != 2*sha256.Size || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%s names a file %q", filepath.Join(k.Dir, manifest), digest)
	}
	text, err := os.ReadFile(filepath.Join(k.Dir, digest))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s is not what was installed: its digest is another", filepath.Join(k.Dir, digest))
	}
	return text, nil
}

// Program is where the guest's first process lies in its initrd; ModulesAt where its modules do,
// and EngineModulesAt those that a private engine needs besides.
const (
	Program   = "/cloister-guest"
	ModulesAt = "/modules"

	EngineModulesAt = "/engine-modules"
)

// made says of what an initrd was made.
type made struct {
	Of     string `json:"of"`
	Digest string `json:"digest"`
}

// Initrd is the file of the initrd, made anew where this program or the kernel is another one
// than it was made of.
func (k Installed) Initrd(program string) (string, error) {
	of, err := k.of(program)
	if err != nil {
		return "", err
	}
	at := filepath.Join(k.Dir, "initrd.json")
	var m made
	if text, err := os.ReadFile(at); err == nil && json.Unmarshal(text, &m) == nil && m.Of == of {
		if _, err := k.file(m.Digest); err == nil {
			return filepath.Join(k.Dir, m.Digest), nil
		}
	}
	text, err := k.archive(program)
	if err != nil {
		return "", err
	}
	last := m.Digest
	if m.Of = of; m.Of == "" {
		return "", errors.New("make the initrd: of nothing")
	}
	if m.Digest, err = k.keep(text); err != nil {
		return "", err
	}
	line, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	if err := place(k.Dir, "initrd.json", line); err != nil {
		return "", err
	}
	if last != "" && last != m.Digest {
		_ = os.Remove(filepath.Join(k.Dir, filepath.Base(last))) // a guest that boots from it has it open
	}
	return filepath.Join(k.Dir, m.Digest), nil
}

// of names what an initrd is made of: this kernel's modules, and a program by what changes
// with its content.
func (k Installed) of(program string) (string, error) {
	fi, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	words := []string{program, strconv.FormatInt(fi.Size(), 10), strconv.FormatInt(fi.ModTime().UnixNano(), 10)}
	for _, m := range k.Modules {
		words = append(words, m.Digest)
	}
	return strings.Join(words, " "), nil
}

func (k Installed) archive(program string) ([]byte, error) {
	a := &cpio{}
	for _, dir := range []string{"dev", "proc", "sys", "root", strings.TrimPrefix(ModulesAt, "/"),
		strings.TrimPrefix(EngineModulesAt, "/")} {
		a.add(dir, 0o40755, nil)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if loaded(text) {
		return nil, fmt.Errorf("%s needs a dynamic loader, which a guest has not: build it with CGO_ENABLED=0", program)
	}
	a.add(strings.TrimPrefix(Program, "/"), 0o100755, stripped(text))
	for i, m := range k.Modules {
		text, err := k.file(m.Digest)
		if err != nil {
			return nil, err
		}
		at := ModulesAt
		if m.Engine {
			at = EngineModulesAt
		}
		a.add(fmt.Sprintf("%s/%02d-%s", strings.TrimPrefix(at, "/"), i, m.Name), 0o100644, text)
	}
	a.add("TRAILER!!!", 0, nil)
	return a.out.Bytes(), nil
}

// loaded reports whether a program of ELF names a loader.
func loaded(text []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(text))
	return err == nil && slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// stripped is a program without what only a debugger reads, which is a third of it: a guest has it in memory.
func stripped(text []byte) []byte {
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return text
	}
	end := uint64(0)
	for _, p := range f.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	if end == 0 || end > uint64(len(text)) {
		return text
	}
	out := bytes.Clone(text[:end])
	// Sections are no longer listed: e_shoff; e_shnum and e_shstrndx.
	clear(out[0x28:0x30])
	clear(out[0x3c:0x40])
	return out
}
