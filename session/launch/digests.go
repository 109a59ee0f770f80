package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"cloister/internal/hint"
	"cloister/internal/realpath"
	"cloister/policy"
)

// digests looks at the programs that statements mean by their content. Each lies where this session cannot
// write, so that what it has now it has still when it is executed. One that is permitted must have it; one that is
// forbidden is where it has it, and otherwise is let be.
func (p *Plan) digests(list []policy.Statement, f Facts, given func(*policy.Statement) bool) error {
	for i := range list {
		st := &list[i]
		if given(st) {
			continue
		}
		refused := func(at string, err error) error {
			return hint.Usage("change the policy, or go on without it: --accept residue:"+st.Residue(),
				"%s: Program::%q: %v", st.Origin, at, err)
		}
		for _, one := range st.Permitted {
			if one.Digest == "" {
				continue
			}
			got, err := p.digest(one.Path, f)
			if err == nil && got != one.Digest && f.Isolation == native {
				err = fmt.Errorf("it has the digest sha256:%s", got)
			}
			if err != nil {
				return refused(one.Path, err)
			}
		}
		var closed []policy.ClosedPath
		for _, one := range st.Closed {
			if one.Digest != "" && f.Isolation == native {
				switch got, err := p.digest(one.Path, f); {
				case errors.Is(err, fs.ErrNotExist): // nor can a session make it
					continue
				case err != nil:
					return refused(one.Path, err)
				case got != one.Digest:
					continue
				}
			}
			closed = append(closed, one)
		}
		st.Closed = closed
	}
	return nil
}

// native is the level that looks at programs.
const native = "native"

// byDigest reports whether a statement forbids a program with its digest.
func byDigest(st policy.Statement) bool {
	return slices.ContainsFunc(st.Closed, func(c policy.ClosedPath) bool { return c.Digest != "" })
}

// fixed are folders of the host's own system, in which no cloister writes what is not shown so.
func fixed() []string { return []string{"/usr", "/opt"} }

// digest is that of a program that lies where nothing inside writes.
func (p *Plan) digest(at string, f Facts) (string, error) {
	in := func(dir string) bool { return realpath.Inside(at, dir) }
	switch {
	case f.Isolation != native:
		return "", nil // the statement is a residue there
	case f.Root.Dir != "":
		return "", errors.New("the programs of an image are not looked at: the image has a digest itself")
	case !slices.ContainsFunc(fixed(), in):
		return "", errors.New("it could be written, or exchanged for another, between the look at it and its execution: " +
			"only what lies in /usr and /opt is permitted by its digest")
	case slices.ContainsFunc(p.own(f), func(dir string) bool { return in(dir) || realpath.Inside(dir, at) }):
		return "", errors.New("this session can write there, and so have another program in its place")
	}
	if real, err := realpath.Of(at); err != nil {
		return "", err
	} else if real != at {
		return "", fmt.Errorf("it leads to %s: name that", real)
	}
	found, err := f.Host.Find(at)
	if err != nil {
		return "", err
	}
	if found.Place != "" {
		return "", fmt.Errorf("a cloister could write %s, and so have another program in its place", found.Place)
	}
	return sumOf(at)
}

// sumOf is the digest of a regular file.
func sumOf(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
