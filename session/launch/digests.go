package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"cloister/internal/hint"
	"cloister/internal/realpath"
	"cloister/policy"
)

// digests looks at the programs that statements permit by their content. Each must have it now, and
// lie where this session cannot write, so that it has it still when it is executed.
func (p *Plan) digests(list []policy.Statement, f Facts, given func(*policy.Statement) bool) error {
	for i := range list {
		st := &list[i]
		if given(st) {
			continue
		}
		for _, one := range st.Permitted {
			if one.Digest == "" {
				continue
			}
			if err := p.digest(one, f); err != nil {
				return hint.Usage("change the policy, or go on without it: --accept residue:"+st.Residue(),
					"%s: Program::%q: %v", st.Origin, one.Path, err)
			}
		}
	}
	return nil
}

// fixed are folders of the host's own system, in which no cloister writes what is not shown so.
func fixed() []string { return []string{"/usr", "/opt"} }

func (p *Plan) digest(one policy.PermittedPath, f Facts) error {
	in := func(dir string) bool { return realpath.Inside(one.Path, dir) }
	switch {
	case f.Isolation != "native":
		return nil // the statement is a residue there
	case f.Root.Dir != "":
		return errors.New("the programs of an image are not looked at: the image has a digest itself")
	case !slices.ContainsFunc(fixed(), in):
		return errors.New("it could be written, or exchanged for another, between the look at it and its execution: " +
			"only what lies in /usr and /opt is permitted by its digest")
	case slices.ContainsFunc(p.own(f), func(dir string) bool { return in(dir) || realpath.Inside(dir, one.Path) }):
		return errors.New("this session can write there, and so have another program in its place")
	}
	if real, err := realpath.Of(one.Path); err != nil {
		return err
	} else if real != one.Path {
		return fmt.Errorf("it leads to %s: name that", real)
	}
	found, err := f.Host.Find(one.Path)
	if err != nil {
		return err
	}
	if found.Place != "" {
		return fmt.Errorf("a cloister could write %s, and so have another program in its place", found.Place)
	}
	got, err := sumOf(one.Path)
	if err != nil {
		return err
	}
	if got != one.Digest {
		return fmt.Errorf("it has the digest sha256:%s", got)
	}
	return nil
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
