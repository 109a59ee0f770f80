package hostexec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// operands binds the files that arguments name, where the cloister could change
// them while a person looks.
func (p *Prepared) operands() error {
	p.Operands = nil
	for i, a := range p.Argv[1:] {
		names := []string{a}
		if _, value, has := strings.Cut(a, "="); has {
			names = append(names, value)
		}
		for _, name := range names {
			if name == "" {
				continue
			}
			o, f, err := p.operand(i+1, name)
			if err != nil {
				return err
			}
			if f == nil {
				continue
			}
			if len(p.Operands) >= MaxOperands {
				f.Close()
				return refuse("more than %d arguments name files of the project", MaxOperands)
			}
			err = p.bind(o, f, name == a)
			f.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// implied binds the files that a known program looks for by itself, in its folder
// and above it in the project: what they say is what it does.
func (p *Prepared) implied() error {
	for _, name := range looksFor(p.Argv[0]) {
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if _, in := below(dir, p.host.Project); !in {
				break
			}
			o, f, err := p.operand(0, filepath.Join(dir, name))
			if _, refused := errors.AsType[*Refused](err); refused {
				break // a link that leads out: to what no program inside can write
			}
			if err != nil {
				return err
			}
			if f == nil {
				continue
			}
			err = p.bind(o, f, false)
			f.Close()
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// operand opens the file that a word names, if it is one in reach of the
// cloister.
func (p *Prepared) operand(i int, name string) (Operand, *os.File, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Dir, name)
	}
	if ofProcess(path) {
		return Operand{}, nil, refuse("argument %d: %q means another file for each process", i, name)
	}
	root, rel := p.written(path)
	if root == "" && filepath.IsAbs(name) {
		// By another of its names: a link outside that leads there.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			root, rel = p.written(real)
		}
	}
	if root == "" {
		return Operand{}, nil, nil
	}
	fd, err := openBeneath(root, rel, unix.O_RDONLY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return Operand{}, nil, nil // no file: the word means something else
	case errors.Is(err, unix.EXDEV):
		return Operand{}, nil, refuse("argument %d: %q leads out of %s", i, name, root)
	case err != nil:
		return Operand{}, nil, refuse("argument %d: %q: %v", i, name, err)
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return Operand{}, nil, nil // a folder: what is in it is the command's business
	}
	return Operand{Arg: i, Path: path}, f, nil
}

// written is the folder that the cloister can write in which a path lies, and the
// rest of the path.
func (p *Prepared) written(path string) (root, rel string) {
	for _, dir := range append([]string{p.host.Project}, p.host.Foreign...) {
		if r, in := below(path, dir); in {
			return dir, r
		}
	}
	return "", ""
}

// bind adds a file's digest. The first one that an interpreter is given is
// copied, and the copy is what it will read.
func (p *Prepared) bind(o Operand, f *os.File, whole bool) error {
	h := sha256.New()
	copied := io.Writer(io.Discard)
	if whole && p.script == nil && interprets(p.Real) && !strings.HasPrefix(p.Argv[o.Arg], "-") {
		fd, err := unix.MemfdCreate("cloister-script", unix.MFD_ALLOW_SEALING)
		if err != nil {
			return fmt.Errorf("copy the script: %w", err)
		}
		p.script, p.at = os.NewFile(uintptr(fd), "script"), o.Arg
		unix.CloseOnExec(fd)
		copied = p.script
	}
	n, err := io.Copy(io.MultiWriter(h, copied), io.LimitReader(f, MaxOperand+1))
	if err != nil {
		return refuse("argument %d: %v", o.Arg, err)
	}
	if n > MaxOperand {
		return refuse("argument %d names a file of more than %d bytes", o.Arg, MaxOperand)
	}
	if p.at == o.Arg && copied != io.Discard {
		const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
		if _, err := unix.FcntlInt(p.script.Fd(), unix.F_ADD_SEALS, seals); err != nil {
			return fmt.Errorf("seal the script: %w", err)
		}
	}
	o.Sum = "sha256:" + hex.EncodeToString(h.Sum(nil))
	p.Operands = append(p.Operands, o)
	return nil
}

// interprets reports whether a program reads a script from a descriptor's path.
func interprets(real string) bool {
	name := strings.TrimRight(filepath.Base(real), "0123456789.")
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "python", "perl", "ruby"}, name)
}
