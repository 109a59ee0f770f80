package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/host/resolve"
	"cloister/workspace/gitdir"
	"cloister/workspace/homes"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
	"cloister/workspace/stubs"
	"cloister/workspace/toolchain"

	"cloister/internal/realpath"
	"cloister/internal/standin"
	"cloister/sandbox"
)

// Expose is one path that the person shows by name.
type Expose struct {
	Path   string
	Access sandbox.Access
	At     string // guest path; the same as Path when empty
	Typed  bool   // in this session's words, not in a file
}

// Options are what a plan depends on besides the project.
type Options struct {
	// Host resolves paths of the host, and knows the register in which what the
	// session may write is entered before anything runs.
	Host  *resolve.Resolver
	Home  string // the person's home on the host; may be empty
	Path  string // the host's PATH
	Data  string // where private homes are kept
	Locks string // where sessions of one project find each other
	None  bool   // --workspace none: no project files at all
	// Elsewhere is a cloister on another host, to which neither toolchains nor the private
	// home are shown.
	Elsewhere bool
	// ReadOnly shows the project's own files so that nothing of them can be written.
	ReadOnly bool
	Overlay  bool // --workspace overlay or scratch: what is written to them never reaches the host by itself
	Uppers   Uppers
	Expose   []Expose
	Refs     []string
	Folders  []string        // more paths inside that lead to the project
	Protect  []string        // more paths of the project to protect, relative to its top
	Hide     []string        // globs of files in the project that are shown empty
	Outer    []protect.Outer // the rules of known projects around this one, as far as they name paths of it
	KeepOut  []string        // Cloister's own folders
	// Sources tells where git of the host has its configuration for a repository.
	Sources func(at hostgit.Folders) hostgit.Configuration
	// Unprotected is a person's word to go on without what cannot be protected
	// (protect.ResidueUnprotected).
	Unprotected bool
	Closed      []Closed // paths that policies close
	Root        string   // the image's root folder; empty for the host's own system
	// Unseen says that the system is an image that lies nowhere on this host; Judged that the kernel keeps what
	// is closed of it.
	Unseen, Judged bool
}

// Uppers are where overlays keep what is written. A nil Project or Git is kept in memory;
// with a nil Home the private home is written as it is.
type Uppers struct{ Project, Home, Git *sandbox.Upper }

// View is a plan: what the cloister shows, and the stubs that were made for it.
type View struct {
	protect.List

	Binds []sandbox.Bind
	Links []sandbox.Link
	Asked []sandbox.Asked // closed files about which a person is asked
	Path  []string        // folders of PATH that exist inside
	Home  sandbox.GuestPath
	Dir   sandbox.GuestPath

	project  Project
	home     string   // the person's
	head     string   // what the git folder's HEAD said
	exposed  []string // targets of what the person shows by name
	held     *stubs.Set
	programs *standin.Set // what stands in for those about which a person is asked; nil for none
	system   []string     // see systemFolders
}

// Plan computes the view and makes what it needs on the host: the private home
// and the stubs for absent protected paths. Release takes the stubs away.
func Plan(p Project, o Options) (*View, error) {
	if o.Host == nil {
		return nil, errors.New("plan the view: nothing says which places cloisters could write")
	}
	v := &View{project: p, Dir: sandbox.GuestPath(p.Dir), Home: guestHome(o.Home, aliased(p, o)), home: o.Home}
	if err := v.plan(p, o); err != nil {
		return nil, errors.Join(err, v.Release())
	}
	return v, nil
}

// guestHome is where the private home lies: at the host home's path, so that
// toolchains that find themselves through HOME do.
func guestHome(home string, aliased bool) sandbox.GuestPath {
	if !filepath.IsAbs(home) || home == "/" || aliased && realpath.Inside(home, alias) {
		return "/home/agent"
	}
	for _, dir := range append([]string{"/etc", "/dev", "/proc", "/sys", "/run", "/boot"}, toolchain.System...) {
		if realpath.Inside(home, dir) {
			return "/home/agent"
		}
	}
	return sandbox.GuestPath(home)
}

func (v *View) plan(p Project, o Options) error {
	if err := v.named(&o); err != nil {
		return err
	}
	root := string(p.Root)
	home, err := homes.Make(o.Data, string(p.Main))
	if err != nil {
		return fmt.Errorf("make private home: %w", err)
	}
	if err := homes.Note(o.Data, string(p.Main)); err != nil {
		return err
	}
	if real, err := realpath.Of(home); err != nil || real != home {
		if err != nil {
			return fmt.Errorf("make private home: %w", err)
		}
		home = real
	}
	if err := v.enter(home, o); err != nil {
		return err
	}
	wide := o.Home != "" && root == o.Home
	if (!wide || o.None) && !o.Elsewhere {
		v.Binds = append(v.Binds, sandbox.Bind{Source: sandbox.HostPath(home), Target: v.Home, Access: sandbox.ReadWrite,
			Overlay: o.Uppers.Home != nil, Upper: o.Uppers.Home})
	}
	keepOut := slices.Clone(o.KeepOut)
	if aliased(p, o) {
		v.Links, keepOut = append(v.Links, sandbox.Link{Path: alias, Target: root}), append(keepOut, alias)
	}
	for _, at := range o.Folders {
		v.Links, keepOut = append(v.Links, sandbox.Link{Path: sandbox.GuestPath(at), Target: root}), append(keepOut, at)
	}
	tools := toolchain.Found{}
	if !o.Elsewhere {
		tools = toolchain.Find(toolchain.Options{Host: o.Host, Path: o.Path, Home: o.Home, Project: root, Own: v.writable(o),
			KeepOut: keepOut})
	}
	v.Path, v.Notices = tools.Dirs, append(v.Notices, tools.Notices...)
	for _, t := range tools.Roots {
		if err := v.bind(home, sandbox.Bind{Source: sandbox.HostPath(t.Path), Target: sandbox.GuestPath(t.Path),
			File: t.File}); err != nil {
			return err
		}
		for _, s := range t.Hide {
			v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(s), File: true, Empty: true, Fleeting: true})
		}
	}
	if o.None {
		v.Dir = v.Home
		v.held = stubs.See(v.writable(o))
	} else {
		if err := v.live(home, o); err != nil {
			return err
		}
		for i := range v.Binds {
			if b := &v.Binds[i]; o.ReadOnly && b.Target != v.Home {
				b.Access = sandbox.ReadOnly
			}
		}
	}
	for _, e := range o.Expose {
		if err := v.expose(home, e, o); err != nil {
			return err
		}
	}
	for _, r := range o.Refs {
		if err := v.expose(home, Expose{Path: r, At: "/refs/" + filepath.Base(r)}, o); err != nil {
			return err
		}
	}
	v.lift(o.Expose)
	v.hideSockets(o)
	if err := v.close(o); err != nil {
		return err
	}
	return v.makeStubs()
}

// bind adds a bind and, where its target lies on an earlier one of ours, makes
// the place to mount it on. Only in the private home are such places made:
// through os.Root, since the payload of an earlier session may have planted links there.
func (v *View) bind(home string, b sandbox.Bind) error {
	if rel, ok := strings.CutPrefix(string(b.Target), string(v.Home)+"/"); ok &&
		!slices.ContainsFunc(v.Binds, func(c sandbox.Bind) bool {
			return string(c.Target) != string(v.Home) && realpath.Inside(string(b.Target), string(c.Target))
		}) {
		r, err := os.OpenRoot(home)
		if err != nil {
			return fmt.Errorf("open private home: %w", err)
		}
		defer r.Close()
		dir := rel
		if b.File {
			dir = filepath.Dir(rel)
		}
		if err := v.clear(r, dir); err != nil {
			return fmt.Errorf("prepare private home for %s: %w", b.Target, err)
		}
		if b.File {
			f, err := r.OpenFile(rel, os.O_CREATE|os.O_RDONLY, 0o644)
			if err != nil {
				return fmt.Errorf("prepare private home for %s: %w", b.Target, err)
			}
			if err := f.Close(); err != nil {
				return fmt.Errorf("prepare private home for %s: %w", b.Target, err)
			}
		}
	}
	v.Binds = append(v.Binds, b)
	return nil
}

// clear makes the folders down to dir. What lies in their way, a link or file
// that a payload put there, is set aside: it could keep every later session of
// the project from starting.
func (v *View) clear(home *os.Root, dir string) error {
	at := "."
	for part := range strings.SplitSeq(dir, string(filepath.Separator)) {
		if part == "." {
			continue
		}
		at = filepath.Join(at, part)
		fi, err := home.Lstat(at)
		if err == nil && !fi.IsDir() {
			aside := at + ".set-aside-" + rand.Text()[:6]
			if err := home.Rename(at, aside); err != nil {
				return err
			}
			v.Notices = append(v.Notices, fmt.Sprintf("%s was in the way in the private home; it is now %s there", at, aside))
			err = fs.ErrNotExist
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
			if err = home.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
				err = nil // another cloister of the project begins at the same moment
			}
		}
		if err != nil {
			return err
		}
		if fi != nil && fi.IsDir() && fi.Mode().Perm()&0o700 != 0o700 {
			if err := home.Chmod(at, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// alias is another path of the project, the same in every cloister.
const alias = "/work"

func aliased(p Project, o Options) bool { return !o.None && !realpath.Inside(string(p.Root), alias) }

func (v *View) expose(home string, e Expose, o Options) error {
	real := e.Path // see named
	fi, err := os.Lstat(real)
	if err != nil {
		return fmt.Errorf("expose %s: %w", e.Path, err)
	}
	if !fi.IsDir() && !fi.Mode().IsRegular() {
		return fmt.Errorf("expose %s: neither a file nor a folder: a socket or device would be a way out", e.Path)
	}
	if real == "/" {
		return fmt.Errorf("expose %s: a cloister may not see all of the host: name what of it is needed", e.Path)
	}
	for _, k := range o.KeepOut {
		switch {
		case k == "":
		case realpath.Inside(real, k):
			return fmt.Errorf("expose %s: it is Cloister's own state (%s), which no cloister may see", e.Path, k)
		case realpath.Inside(k, real):
			return fmt.Errorf("expose %s: it holds Cloister's own state (%s), which no cloister may see: name what of it "+
				"is needed", e.Path, k)
		}
	}
	if err := noHostsOwn(real); err != nil {
		return err
	}
	target := e.At
	if target == "" {
		target = real
	}
	if slices.Contains([]string{"/etc", "/etc/ssl", "/etc/ssl/certs", "/var/tmp"}, target) {
		return fmt.Errorf("expose %s: a cloister has its own: name what of it is needed, or --ref shows it at /refs", e.Path)
	}
	if realpath.Inside(target, alias) && slices.ContainsFunc(v.Links,
		func(l sandbox.Link) bool { return l.Path == alias }) {
		return fmt.Errorf("expose %s: inside, %s is the project: --ref shows it at /refs", e.Path, alias)
	}
	b := sandbox.Bind{Source: sandbox.HostPath(real), Target: sandbox.GuestPath(target), Access: e.Access,
		File: !fi.IsDir()}
	if root := string(v.project.Root); o.Overlay && e.Access == sandbox.ReadWrite &&
		(realpath.Inside(target, root) || realpath.Inside(root, target)) {
		return fmt.Errorf("expose %s: nothing of the project is written on the host from an overlay workspace: leave out "+
			":rw, or use --workspace live", e.Path)
	}
	if e.Access == sandbox.ReadWrite && realpath.Inside(target, string(v.project.Root)) {
		// The person's word lifts the protection of that path.
		v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool {
			return realpath.Inside(string(p.Target), target)
		})
		v.Stubs = slices.DeleteFunc(v.Stubs, func(s stubs.Stub) bool {
			return realpath.Inside(filepath.Join(s.Root, s.Rel), target)
		})
		return nil
	}
	v.exposed = append(v.exposed, target)
	if err := v.bind(home, b); err != nil || b.File || e.Access != sandbox.ReadWrite {
		return err
	}
	return protect.New(&v.List, target, o.Data, o.Unprotected).Exposed()
}

// lift takes away what is protected in folders that the person shows writable by their
// own names, in a folder that is shown, too.
func (v *View) lift(shown []Expose) {
	for _, e := range shown {
		if e.Access != sandbox.ReadWrite || !slices.ContainsFunc(shown, func(o Expose) bool {
			return o.Access == sandbox.ReadWrite && o.Path != e.Path && realpath.Inside(e.Path, o.Path)
		}) {
			continue
		}
		v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool {
			return !p.Empty && realpath.Inside(string(p.Target), e.Path)
		})
	}
}

// live shows the project writable, and protects it.
func (v *View) live(home string, o Options) error {
	p := v.project
	root := string(p.Root)
	if err := v.bind(home, sandbox.Bind{Source: p.Root, Target: sandbox.GuestPath(root), Access: sandbox.ReadWrite,
		Overlay: o.Overlay, Upper: o.Uppers.Project}); err != nil {
		return err
	}
	for _, k := range o.KeepOut {
		if k != "" && realpath.Inside(k, root) {
			if _, err := os.Stat(k); err == nil {
				v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(k), Empty: true})
			}
		}
	}
	if o.Overlay {
		return v.overlay(home, o)
	}
	var err error
	if v.held, err = stubs.Open(o.Locks, o.Data, filepath.Base(homes.Of("", string(p.Main))), v.writable(o)); err != nil {
		return err
	}
	if p.Git != nil {
		if err := v.held.Recover(excludeOf(p.Git), root); err != nil {
			return err
		}
	}
	tree := protect.New(&v.List, root, o.Data, o.Unprotected)
	if err := tree.Project(o.Hide, o.Protect, o.Outer); err != nil {
		return err
	}
	v.unseen(o.KeepOut)
	if err := tree.Top(); err != nil {
		return err
	}
	if p.Git != nil {
		v.head, _ = gitdir.Head(p.Git.Dir)
		if err := v.git(home, tree, *p.Git, o); err != nil {
			return err
		}
		return tree.Twins()
	}
	// What is made into a repository inside would be obeyed by git outside.
	if err := tree.Path(".git", stubs.Folder); err != nil {
		return err
	}
	return tree.Twins()
}

// unseen takes away what is protected in Cloister's own folders: they are covered whole, and inside nothing of what
// they hold could be found to be protected.
func (v *View) unseen(keepOut []string) {
	v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool {
		return slices.ContainsFunc(keepOut, func(k string) bool {
			return k != "" && realpath.Inside(string(p.Target), k) && !(p.Empty && string(p.Target) == k)
		})
	})
}

// overlay shows what the host has hidden or a person protects as live does.
// Nothing else needs protection from what never reaches the host, and nothing is
// held there.
func (v *View) overlay(home string, o Options) error {
	v.held = stubs.See(v.writable(o))
	root := string(v.project.Root)
	tree := protect.New(&v.List, root, o.Data, o.Unprotected)
	if err := tree.Sockets(o.Hide, o.Protect, o.Outer); err != nil {
		return err
	}
	if err := tree.Twins(); err != nil {
		return err
	}
	if g := v.project.Git; g != nil && !realpath.Inside(g.Common, root) {
		return v.bind(home, sandbox.Bind{Source: sandbox.HostPath(g.Common), Target: sandbox.GuestPath(g.Common),
			Access: sandbox.ReadWrite, Overlay: true, Upper: o.Uppers.Git})
	}
	return nil
}
