package resolve

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// System are the folders in which distributions and package managers keep programs for
// a whole machine.
const System = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:" +
	"/run/current-system/sw/bin:/opt/homebrew/bin:/opt/local/bin:/home/linuxbrew/.linuxbrew/bin"

// Program is a program of the host that no one else could have put there.
type Program struct {
	Path string // as it was found: some programs go by their names
	Real string // without links
}

// Untrusted says that a program lies where someone else could have put it.
type Untrusted struct{ Name, Why string }

func (e *Untrusted) Error() string {
	return fmt.Sprintf("the program %s is not run: %s", e.Name, e.Why)
}

// Hints are the words of what to do.
func (e *Untrusted) Hints() []string {
	return []string{"programs of the host are run from folders that only you or root can write, and no cloister"}
}

// NoProgram says that no trusted folder has a program of that name.
type NoProgram struct {
	Name string
	Seen *Untrusted // one that was there and is not to be trusted
}

func (e *NoProgram) Error() string {
	if e.Seen != nil {
		return fmt.Sprintf("there is no program %q on the host that could be run; %v", e.Name, e.Seen)
	}
	return fmt.Sprintf("there is no program %q on the host", e.Name)
}

func (e *NoProgram) Unwrap() error {
	if e.Seen != nil {
		return e.Seen
	}
	return nil
}

// Program finds a program by its whole path, or by its name in the folders of a PATH.
func (r *Resolver) Program(name, path string) (Program, error) {
	if filepath.IsAbs(name) {
		return r.program(name)
	}
	if name == "" || strings.ContainsRune(name, '/') {
		return Program{}, fmt.Errorf("%q is neither the name of a program nor a whole path", name)
	}
	var seen *Untrusted
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) {
			continue
		}
		p, err := r.program(filepath.Join(dir, name))
		if err == nil {
			return p, nil
		}
		if u, ok := err.(*Untrusted); ok && seen == nil { //nolint:errorlint // made below, never wrapped
			seen = u
		}
	}
	return Program{}, &NoProgram{Name: name, Seen: seen}
}

func (r *Resolver) program(file string) (Program, error) {
	f, err := r.Find(file)
	if err != nil {
		return Program{}, err
	}
	if f.Info.Kind() != unix.S_IFREG || f.Info.Mode&0o111 == 0 {
		return Program{}, fmt.Errorf("%s is no program", file)
	}
	if why := r.untrusted(f); why != "" {
		return Program{}, &Untrusted{Name: file, Why: why}
	}
	return Program{Path: f.Path, Real: f.Real}, nil
}

// untrusted says why what was found could be someone else's; empty for no reason.
func (r *Resolver) untrusted(f Found) string {
	if f.Link != "" {
		return f.Who
	}
	if f.Place != "" {
		return "a cloister could write " + f.Place
	}
	if why := r.other(f.Real, f.Info); why != "" {
		return why
	}
	dir := filepath.Dir(f.Real)
	switch h := r.in(dir); {
	case h.place != "":
		return "a cloister could write " + h.place
	case h.other != "" && !r.sticky(dir, f.Info):
		return h.other
	}
	return ""
}

// Trusted says that no one else could have chosen or written a file or folder; the
// error is an *Untrusted or says why it cannot be looked at.
func (r *Resolver) Trusted(path string) error {
	f, err := r.Find(path)
	if err != nil {
		return err
	}
	if why := r.untrusted(f); why != "" {
		return &Untrusted{Name: path, Why: why}
	}
	return nil
}

// TrustedFile is where a file lies that no one else could have chosen or written.
func (r *Resolver) TrustedFile(path string) (string, error) {
	found, err := r.Find(path)
	if err == nil {
		err = r.Trusted(path)
	}
	return found.Real, err
}

// Path keeps of a PATH the folders from which programs of the host may be run.
func (r *Resolver) Path(list string) string {
	var out []string
	for dir := range strings.SplitSeq(list, ":") {
		if !filepath.IsAbs(dir) || slices.Contains(out, dir) {
			continue
		}
		if f, err := r.Find(dir); err == nil && f.IsDir() && r.untrusted(f) == "" {
			out = append(out, dir)
		}
	}
	return strings.Join(out, ":")
}

// Environment is an environment whose PATH has only such folders.
func (r *Resolver) Environment(env []string) []string {
	out := slices.Clone(env)
	for i, e := range out {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			out[i] = "PATH=" + r.Path(list)
		}
	}
	return out
}

// Lookup is the PATH of an environment; [System] where it has none.
func Lookup(env []string) string {
	for _, e := range slices.Backward(env) {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return list
		}
	}
	return System
}
