package workspace

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/protect"
	"cloister/workspace/stubs"
	"cloister/workspace/toolchain"
)

// Closed is a path inside that a policy closes: it is shown empty or, where Write
// is set, read-only.
type Closed struct {
	Path  string // absolute and clean
	Dir   bool   // with all below it
	Write bool   // it can still be read
	// Residue is the word that accepts that it is open; Accepted says that a
	// person did. Place and Rule are for what is reported.
	Residue, Place, Rule string
	Accepted             bool
	// Read, Change and Exec say that a person is asked when it is opened for that, or executed.
	Read, Change, Exec bool
}

// asks is above 0 for a path about which a person is asked. What stands in for a program lies above what is empty.
func (c *Closed) asks() int {
	switch {
	case c.Exec:
		return 2
	case c.Read || c.Change:
		return 1
	}
	return 0
}

// NotClosed says that a view cannot keep a path closed as a policy wants it.
type NotClosed struct {
	Closed Closed
	Why    string
}

func (e *NotClosed) Error() string {
	return "close " + e.Closed.Path + ", as the policy \"" + e.Closed.Rule + "\" at " + e.Closed.Place + " wants: " + e.Why
}

// Hints are the words of what to do.
func (e *NotClosed) Hints() []string {
	return []string{"change the policy, or go on without it: --accept residue:" + e.Closed.Residue}
}

// maxNotClosed bounds the paths that one refusal names.
const maxNotClosed = 10

// close covers what policies close. It is done when everything else that the
// view shows is known.
func (v *View) close(o Options) error {
	if len(o.Closed) == 0 {
		return nil
	}
	cl := &closing{View: v, o: o, covers: covers{list: &v.Protect}, forbidden: len(v.Protect)}
	// A person is asked about what no other statement closes, by whatever name: those come first.
	list := slices.Clone(o.Closed)
	slices.SortStableFunc(list, func(a, b Closed) int { return cmp.Compare(a.asks(), b.asks()) })
	var errs []error
	for _, c := range list {
		why := cl.path(c)
		switch {
		case why == "" || c.Accepted:
		case len(errs) < maxNotClosed:
			errs = append(errs, &NotClosed{Closed: c, Why: why})
		default:
			return errors.Join(append(errs, errors.New("and there are more"))...)
		}
		if c.asks() == 0 {
			cl.forbidden = len(v.Protect)
		}
	}
	return errors.Join(errs...)
}

// A closing covers many paths, each at the same cost however many there are.
type closing struct {
	*View
	o         Options
	covers    covers
	absent    *protect.Tree     // holds what is not there; nil until something is
	forbidden int               // so many of what is protected are so by no statement that asks
	instead   sandbox.GuestPath // what stands in for the program that is covered; empty for none
}

// covers finds what is protected by its path, in a list that only grows meanwhile.
type covers struct {
	list *[]sandbox.Protect
	seen int // so many of the list are in at
	at   map[string][]int
}

// of are the places in the list of what protects a path.
func (c *covers) of(path string) []int {
	if c.at == nil {
		c.at = make(map[string][]int, len(*c.list))
	}
	for ; c.seen < len(*c.list); c.seen++ {
		target := string((*c.list)[c.seen].Target)
		c.at[target] = append(c.at[target], c.seen)
	}
	return c.at[path]
}

// path covers one path; why says what keeps it from that.
func (v *closing) path(c Closed) (why string) {
	o := v.o
	if lies := v.liesIn(c, o); lies != "" {
		return "the cloister's own " + lies + " lies in it"
	}
	if o.Unseen && v.bindOf(c.Path) == nil && !v.owned(c.Path) {
		if o.Judged {
			return ""
		}
		return "it is of an image whose files are not seen on this host; those of an image of cloister image list are"
	}
	guest, writable, there, err := v.find(c.Path, o)
	switch {
	case err != nil:
		return err.Error()
	case guest == "" && there:
		return "what lies there is the cloister's own"
	case !there && !writable:
		return "" // nothing of it is inside, and nothing can be made there
	case !there && realpath.Inside(c.Path, string(v.project.Root)) && !o.None && !o.Overlay:
		if len(v.covers.of(c.Path)) > 0 {
			return ""
		}
		// It is held like any absent protected path.
		kind := stubs.Blank
		if c.Dir {
			kind = stubs.Folder
		}
		rel, err := filepath.Rel(string(v.project.Root), c.Path)
		if err != nil {
			return err.Error()
		}
		if v.absent == nil {
			v.absent = protect.New(&v.List, string(v.project.Root), "", o.Unprotected)
		}
		if err := v.absent.Path(rel, kind); err != nil {
			return err.Error()
		}
		return ""
	case !there:
		return "it is not there yet, and can be made by whoever writes there"
	case c.Write && !writable && !c.Change:
		return ""
	}
	fi, err := os.Stat(v.onHost(guest, o))
	if err != nil {
		return err.Error()
	}
	v.instead = ""
	if c.asks() > 0 {
		if why := v.asks(c, guest, fi, o); why != "" {
			return why
		}
	}
	v.pinAbove(guest, &v.covers)
	v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(guest), File: !fi.IsDir(), Empty: !c.Write,
		Instead: v.instead})
	return ""
}

// liesIn is a part of the view below a path that cannot be closed with it; empty
// where there is none.
func (v *View) liesIn(c Closed, o Options) string {
	for _, b := range v.Binds {
		if c.Path != string(b.Target) && realpath.Inside(string(b.Target), c.Path) &&
			(!c.Write || b.Access == sandbox.ReadWrite) {
			return string(b.Target)
		}
	}
	system := v.systemFolders()
	if c.Write || o.Root != "" && c.Path != "/" && c.Path != "/etc" {
		system = []string{"/tmp", "/dev", "/proc"}
	}
	for _, dir := range system {
		if c.Path != dir && realpath.Inside(dir, c.Path) {
			return dir
		}
	}
	return ""
}

// find gives the path inside without symbolic links, and reports whether anything
// lies there and whether the payload can write there. An empty path that is there
// is one that no host path stands for. An error is a path of which that cannot be known.
func (v *View) find(path string, o Options) (guest string, writable, there bool, err error) {
	if o.Root != "" { // whose links the host would follow to its own files
		path, err = realpath.In(o.Root, path, func(at string) realpath.Place {
			if v.bindOf(at) != nil {
				return realpath.Other
			}
			return realpath.Roots
		})
		if err != nil {
			return "", false, false, err
		}
	}
	b := v.bindOf(path)
	if b == nil && v.owned(path) {
		return "", true, true, nil
	}
	host := v.onHost(path, o)
	if host == "" {
		return "", false, false, nil
	}
	writable = b != nil && b.Access == sandbox.ReadWrite
	real, err := realpath.Of(host)
	if err != nil {
		return path, writable, !errors.Is(err, fs.ErrNotExist), nil
	}
	// Where a link leads elsewhere, the place that it leads to is covered.
	for _, c := range v.Binds {
		if rel, ok := below(real, string(c.Source)); ok {
			return filepath.Join(string(c.Target), rel), c.Access == sandbox.ReadWrite, true, nil
		}
	}
	if rel, ok := below(real, o.Root); ok && o.Root != "" {
		return "/" + rel, false, true, nil
	}
	if v.shown(real) {
		return real, false, true, nil
	}
	return "", false, false, nil // a link that leads out of the view
}

// owned are folders that every cloister has for itself.
func (v *View) owned(path string) bool {
	return path == "/" || slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run"},
		func(dir string) bool {
			return realpath.Inside(path, dir)
		})
}

// onHost is where on the host a guest path lies; empty where it is not shown.
func (v *View) onHost(guest string, o Options) string {
	if b := v.bindOf(guest); b != nil {
		rel, _ := below(guest, string(b.Target))
		return filepath.Join(string(b.Source), rel)
	}
	switch {
	case o.Root != "":
		return filepath.Join(o.Root, guest)
	case v.shown(guest):
		return guest
	}
	return ""
}

// shown reports whether a host path is one that every cloister on the host's own
// system sees.
func (v *View) shown(path string) bool {
	return slices.ContainsFunc(v.systemFolders(), func(dir string) bool { return realpath.Inside(path, dir) })
}

// systemFolders are found once: to find those of /etc costs more than all that is asked of them.
func (v *View) systemFolders() []string {
	if v.system == nil {
		v.system = slices.Concat(toolchain.System, []string{"/lib32", "/libx32"}, sandbox.OwnEtc())
	}
	return v.system
}

// bindOf is the bind that shows a guest path: the last of those above it, which
// lies on the others.
func (v *View) bindOf(guest string) *sandbox.Bind {
	for i := len(v.Binds) - 1; i >= 0; i-- {
		if realpath.Inside(guest, string(v.Binds[i].Target)) {
			return &v.Binds[i]
		}
	}
	return nil
}

func below(path, dir string) (string, bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// pinAbove holds the folders above a path of a writable bind in their places.
func (v *View) pinAbove(guest string, c *covers) {
	b := v.bindOf(guest)
	if b == nil || b.Access != sandbox.ReadWrite {
		return
	}
	var chain []sandbox.Protect
	for dir := filepath.Dir(guest); dir != string(b.Target) &&
		realpath.Inside(dir, string(b.Target)); dir = filepath.Dir(dir) {
		if len(c.of(dir)) == 0 {
			chain = append(chain, sandbox.Protect{Target: sandbox.GuestPath(dir), Pin: true})
		}
	}
	slices.Reverse(chain)
	v.Protect = append(v.Protect, chain...)
}
