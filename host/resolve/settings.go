package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
)

// Foreign says that a file of settings is not read, since someone else could have
// written it or chosen where its name leads.
type Foreign struct{ Path, Why string }

func (e *Foreign) Error() string { return fmt.Sprintf("%s is not read: %s", e.Path, e.Why) }

// Hints are the words of what to do.
func (e *Foreign) Hints() []string {
	return []string{"such a file lies where only you or root can write, and no cloister: copy it there and name the copy"}
}

// Settings finds a file that Cloister obeys, or shows inside, because a variable or the
// person's configuration names it. The error is a *Foreign where someone else could have
// written the file, or could while the session lives: own are the folders that the
// session may write.
func (r *Resolver) Settings(path string, own ...string) (Found, error) {
	f, err := r.Find(path)
	if err != nil {
		return f, err
	}
	if why := r.untrusted(f); why != "" {
		return f, &Foreign{path, why}
	}
	for _, dir := range own {
		at, err := r.Find(dir)
		if err == nil && realpath.Inside(f.Real, at.Real) {
			return f, &Foreign{path, "this session can write " + dir}
		}
	}
	return f, nil
}

// Written finds a file that Cloister writes because the configuration names it, and which
// need not be there yet: where it is, without links.
func (r *Resolver) Written(path string) (string, error) {
	f, err := r.Settings(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f.Real, err
	}
	dir, err := r.Settings(filepath.Dir(path))
	return filepath.Join(dir.Real, filepath.Base(path)), err
}

// Typed finds a file whose path a person typed: where that leads no one else may have chosen.
// Descriptors of this process are meant as they are: --file <(pass show x).
func (r *Resolver) Typed(path string) (Found, error) {
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/self/fd/") {
		return Found{Path: path, Real: path}, nil
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return Found{Path: path}, err
	}
	f, err := r.Find(full)
	if err == nil {
		err = f.Chosen()
	}
	return f, err
}

// TypedNew is Typed for a file that need not be there: its folder is resolved, and the
// last name is for whoever opens it without following a link.
func (r *Resolver) TypedNew(path string) (string, error) {
	dir, err := r.Typed(filepath.Dir(path))
	return filepath.Join(dir.Real, filepath.Base(path)), err
}

// Settled keeps of an environment what names no file of someone else's: keys are the
// variables that name one.
func (r *Resolver) Settled(env []string, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		key, value, _ := strings.Cut(e, "=")
		if !slices.Contains(keys, key) {
			return false
		}
		for word := range strings.FieldsSeq(value) { // a command of a shell has several
			if !filepath.IsAbs(word) {
				continue
			}
			if _, err := r.Settings(word); err != nil {
				if _, foreign := errors.AsType[*Foreign](err); foreign {
					return true
				}
			}
		}
		return false
	})
}
