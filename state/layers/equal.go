package layers

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"syscall"
)

// sameContent compares a file of the base with that of the stack.
func sameContent(kind Kind, name string, base *Folder, e entry) (bool, error) {
	if kind != File {
		return kind == Link, nil // their targets are equal
	}
	return equalFiles(base, e.from, name)
}

func equalFiles(a, b *Folder, name string) (same bool, err error) {
	x, err := a.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	y, err := b.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = y.Close() }()
	return equalSparse(x, y)
}

// equalSparse compares two files, and passes over what is a hole in both: a payload can
// make one of terabytes.
func equalSparse(x, y *os.File) (bool, error) {
	bx, by := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		nx, ex := nextData(x, at)
		ny, ey := nextData(y, at)
		if err := errors.Join(ex, ey); err != nil {
			return false, err
		}
		if at = min(nx, ny); at == math.MaxInt64 {
			return sameSize(x, y)
		}
		nx1, ex := x.ReadAt(bx, at)
		ny1, ey := y.ReadAt(by, at)
		for _, err := range []error{ex, ey} {
			if err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
		}
		if nx1 != ny1 || !bytes.Equal(bx[:nx1], by[:ny1]) {
			return false, nil
		}
		at += int64(len(bx))
	}
}

func sameSize(x, y *os.File) (bool, error) {
	sx, ex := x.Stat()
	sy, ey := y.Stat()
	if err := errors.Join(ex, ey); err != nil {
		return false, err
	}
	return sx.Size() == sy.Size(), nil
}

// nextData is where a file has data from a place on, the largest number where no more is.
func nextData(f *os.File, from int64) (int64, error) {
	at, err := f.Seek(from, seekData)
	if errors.Is(err, syscall.ENXIO) {
		return math.MaxInt64, nil
	}
	return at, err
}

// SameNew reports whether a change of this stack and one of another came to the same: by
// the very file, or by what is in it. Times that a program can set are not believed.
func (s *Stack) SameNew(c Change, other *Stack, d Change) (bool, error) {
	if c.Op != d.Op || c.From != d.From || c.New.Kind != d.New.Kind || c.New.Mode != d.New.Mode ||
		c.New.Size != d.New.Size || c.New.Target != d.New.Target {
		return false, nil
	}
	if c.New.Kind != File || c.New.Stamp == d.New.Stamp {
		return true, nil
	}
	x, err := s.OpenNew(c)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	y, err := other.OpenNew(d)
	if err != nil {
		return false, err
	}
	defer func() { _ = y.Close() }()
	return equalSparse(x, y)
}
