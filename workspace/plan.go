package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/workspace/stubs"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// Expose is one path that the person shows by name.
type Expose struct {
	Path   string
	Access sandbox.Access
	At     string // guest path; the same as Path when empty
}

// Options are what a plan depends on besides the project.
type Options struct {
	Home    string // the person's home on the host; may be empty
	Path    string // the host's PATH
	Data    string // where private homes are kept
	Locks   string // where sessions of one project find each other
	None    bool   // --workspace none: no project files at all
	Overlay bool   // --workspace overlay: what is written to them never reaches the host
	Expose  []Expose
	Refs    []string
	Protect []string // more paths of the project to protect, relative to its top
	Hide    []string // globs of files in the project that are shown empty
	KeepOut []string // Cloister's own folders
	Closed  []Closed // paths that policies close
	Root    string   // the image's root folder; empty for the host's own system
}

// View is a plan: what the cloister shows, and the stubs that were made for it.
type View struct {
	Binds   []sandbox.Bind
	Protect []sandbox.Protect
	Files   []sandbox.File // that covers show
	Links   []sandbox.Link
	Path    []string // folders of PATH that exist inside
	Home    sandbox.GuestPath
	Dir     sandbox.GuestPath
	Notices []string

	project Project
	home    string       // the person's
	exposed []string     // targets of what the person shows by name
	stubs   []stubs.Stub // planned
	held    *stubs.Set
}

// homeOf is the private home of a project, by its host path.
func homeOf(data string, root sandbox.HostPath) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(data, "homes", hex.EncodeToString(sum[:8]))
}

// Plan computes the view and makes what it needs on the host: the private home
// and the stubs for absent protected paths. Release takes the stubs away.
func Plan(p Project, o Options) (*View, error) {
	v := &View{project: p, Dir: sandbox.GuestPath(p.Dir), Home: guestHome(o.Home, aliased(p, o)), home: o.Home}
	if err := v.plan(p, o); err != nil {
		return nil, errors.Join(err, v.Release())
	}
	return v, nil
}

// Held tells whether a path, relative to the project's top, was protected: it
// or a folder above it was read-only, or it was pinned in its place.
func (v *View) Held(rel string) bool {
	full := filepath.Join(string(v.project.Root), rel)
	for _, p := range v.Protect {
		if string(p.Target) == full || !p.Pin && realpath.Inside(full, string(p.Target)) {
			return true
		}
	}
	return false
}

// guestHome is where the private home lies: at the host home's path, so that
// toolchains that find themselves through HOME do.
func guestHome(home string, aliased bool) sandbox.GuestPath {
	if !filepath.IsAbs(home) || home == "/" || aliased && realpath.Inside(home, alias) {
		return "/home/agent"
	}
	for _, dir := range append([]string{"/etc", "/dev", "/proc", "/sys", "/run", "/boot"}, systemRoots...) {
		if realpath.Inside(home, dir) {
			return "/home/agent"
		}
	}
	return sandbox.GuestPath(home)
}

func (v *View) plan(p Project, o Options) error {
	root := string(p.Root)
	home := homeOf(o.Data, p.Main)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("make private home: %w", err)
	}
	// An earlier payload may have closed it to its own user.
	if err := os.Chmod(home, 0o700); err != nil {
		return fmt.Errorf("make private home: %w", err)
	}
	if real, err := realpath.Of(home); err != nil || real != home {
		if err != nil {
			return fmt.Errorf("make private home: %w", err)
		}
		home = real
	}
	wide := o.Home != "" && root == o.Home
	if !wide || o.None {
		v.Binds = append(v.Binds, sandbox.Bind{Source: sandbox.HostPath(home), Target: v.Home, Access: sandbox.ReadWrite})
	}
	keepOut := slices.Clone(o.KeepOut)
	if aliased(p, o) {
		v.Links, keepOut = append(v.Links, sandbox.Link{Path: alias, Target: root}), append(keepOut, alias)
	}
	tools, dirs := toolchains(o.Path, o.Home, keepOut, root)
	v.Path = dirs
	for _, t := range tools {
		if err := v.bind(home, sandbox.Bind{Source: sandbox.HostPath(t.root), Target: sandbox.GuestPath(t.root), File: t.file}); err != nil {
			return err
		}
		for _, s := range t.hide {
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
	}
	for _, e := range o.Expose {
		if err := v.expose(home, e, o); err != nil {
			return err
		}
	}
	for _, r := range o.Refs {
		real, err := realpath.Of(r)
		if err != nil {
			return fmt.Errorf("show %s at /refs: %w", r, err)
		}
		if err := v.expose(home, Expose{Path: real, At: "/refs/" + filepath.Base(real)}, o); err != nil {
			return err
		}
	}
	v.hideSockets(o)
	if err := v.close(o); err != nil {
		return err
	}
	return v.makeStubs()
}

// bind adds a bind and, where its target lies on an earlier one of ours, makes
// the place to mount it on. Only the private home is made places in: through
// os.Root, since the payload of an earlier session may have planted links there.
func (v *View) bind(home string, b sandbox.Bind) error {
	if rel, ok := strings.CutPrefix(string(b.Target), string(v.Home)+"/"); ok && !slices.ContainsFunc(v.Binds, func(c sandbox.Bind) bool {
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
	real, err := realpath.Of(e.Path)
	if err != nil {
		return fmt.Errorf("expose %s: %w", e.Path, err)
	}
	fi, err := os.Stat(real)
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
			return fmt.Errorf("expose %s: it holds Cloister's own state (%s), which no cloister may see: name what of it is needed", e.Path, k)
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
	if realpath.Inside(target, alias) && slices.ContainsFunc(v.Links, func(l sandbox.Link) bool { return l.Path == alias }) {
		return fmt.Errorf("expose %s: inside, %s is the project: --ref shows it at /refs", e.Path, alias)
	}
	b := sandbox.Bind{Source: sandbox.HostPath(real), Target: sandbox.GuestPath(target), Access: e.Access, File: !fi.IsDir()}
	if root := string(v.project.Root); o.Overlay && e.Access == sandbox.ReadWrite && (realpath.Inside(target, root) || realpath.Inside(root, target)) {
		return fmt.Errorf("expose %s: nothing of the project is written on the host from an overlay workspace: leave out :rw, or use --workspace live", e.Path)
	}
	if e.Access == sandbox.ReadWrite && realpath.Inside(target, string(v.project.Root)) {
		// The person's word lifts the protection of that path.
		v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool { return realpath.Inside(string(p.Target), target) })
		v.stubs = slices.DeleteFunc(v.stubs, func(s stubs.Stub) bool { return realpath.Inside(filepath.Join(s.Root, s.Rel), target) })
		return nil
	}
	v.exposed = append(v.exposed, target)
	return v.bind(home, b)
}

// live shows the project writable, and protects it.
func (v *View) live(home string, o Options) error {
	p := v.project
	root := string(p.Root)
	if err := v.bind(home, sandbox.Bind{Source: p.Root, Target: sandbox.GuestPath(root), Access: sandbox.ReadWrite, Overlay: o.Overlay}); err != nil {
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
	if v.held, err = stubs.Open(o.Locks, o.Data, filepath.Base(homeOf("", p.Main)), v.writable(o)); err != nil {
		return err
	}
	tree := newTree(v, root)
	found, sockets, closed := nested(root)
	tree.close(closed)
	for _, a := range autoRun {
		if err := tree.protect(a.path, a.absent); err != nil {
			return err
		}
	}
	for _, rel := range sockets {
		tree.cover(sandbox.Protect{File: true, Yields: true}, rel)
	}
	for _, rel := range found {
		if err := tree.protect(rel, stubs.Leave); err != nil {
			return err
		}
		if dir := filepath.Dir(rel); filepath.Base(rel) == "config" && filepath.Base(dir) == ".git" {
			if err := tree.holdCommon(dir); err != nil {
				return err
			}
		}
	}
	for _, rel := range o.Protect {
		clean := filepath.Clean(rel)
		if !filepath.IsLocal(clean) || clean == "." {
			return fmt.Errorf("protect %s: not a path inside the project", rel)
		}
		if err := tree.protect(clean, stubs.Folder); err != nil {
			return err
		}
	}
	for _, glob := range o.Hide {
		if err := tree.hide(glob); err != nil {
			return err
		}
	}
	if p.Git != nil {
		return v.git(home, tree, *p.Git)
	}
	// What is made into a repository inside would be obeyed by git outside.
	return tree.protect(".git", stubs.Folder)
}

// overlay shows what the host has hidden or a person protects as live does.
// Nothing else needs protection from what never reaches the host, and nothing is
// held there.
func (v *View) overlay(home string, o Options) error {
	v.held = stubs.See(v.writable(o))
	root := string(v.project.Root)
	tree := newTree(v, root)
	_, sockets, closed := nested(root)
	tree.close(closed)
	for _, rel := range sockets {
		tree.cover(sandbox.Protect{File: true, Yields: true}, rel)
	}
	for _, rel := range o.Protect {
		clean := filepath.Clean(rel)
		if !filepath.IsLocal(clean) || clean == "." {
			return fmt.Errorf("protect %s: not a path inside the project", rel)
		}
		if err := tree.protect(clean, stubs.Leave); err != nil {
			return err
		}
	}
	for _, glob := range o.Hide {
		if err := tree.hide(glob); err != nil {
			return err
		}
	}
	if g := v.project.Git; g != nil && !realpath.Inside(g.Common, root) {
		return v.bind(home, sandbox.Bind{Source: sandbox.HostPath(g.Common), Target: sandbox.GuestPath(g.Common), Access: sandbox.ReadWrite, Overlay: true})
	}
	return nil
}

// git protects what git runs or is led by, and shows a linked worktree the
// repository that it belongs to.
func (v *View) git(home string, tree *tree, g Git) error {
	root := string(v.project.Root)
	common := tree
	if g.File {
		if err := tree.protect(".git", stubs.Leave); err != nil {
			return err
		}
		if !realpath.Inside(g.Common, root) {
			if err := v.bind(home, sandbox.Bind{Source: sandbox.HostPath(g.Common), Target: sandbox.GuestPath(g.Common), Access: sandbox.ReadWrite}); err != nil {
				return err
			}
			common = newTree(v, g.Common)
		}
	}
	rel := func(path string) string {
		r, err := filepath.Rel(common.root, path)
		if err != nil {
			return path
		}
		return r
	}
	base := rel(g.Common)
	for _, a := range gitAutoRun {
		if err := common.protect(filepath.Join(base, a.path), a.absent); err != nil {
			return err
		}
	}
	if err := common.holdCommon(base); err != nil {
		return err
	}
	if err := common.modules(base); err != nil {
		return err
	}
	for _, path := range configured(root, g, v.home) {
		r, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("protect %s: %w", path, err)
		}
		if err := tree.protect(r, stubs.Folder); err != nil {
			return err
		}
	}
	// What leads to working trees is the host's, also of those that the host makes
	// meanwhile: git of the host follows it. Only this one's own folder is written.
	admin := filepath.Join(g.Common, "worktrees")
	if g.Dir == g.Common {
		return common.protect(rel(admin), stubs.Folder)
	}
	v.Binds = append(v.Binds,
		sandbox.Bind{Source: sandbox.HostPath(admin), Target: sandbox.GuestPath(admin)},
		sandbox.Bind{Source: sandbox.HostPath(g.Dir), Target: sandbox.GuestPath(g.Dir), Access: sandbox.ReadWrite})
	for name, absent := range map[string]stubs.Kind{"gitdir": stubs.Leave, "commondir": stubs.Leave, "config.worktree": stubs.File} {
		if err := common.protect(rel(filepath.Join(g.Dir, name)), absent); err != nil {
			return err
		}
	}
	if err := common.modules(rel(g.Dir)); err != nil {
		return err
	}
	// The main working tree is not this cloister's to move.
	for _, name := range []string{"HEAD", "index"} {
		if err := common.protect(rel(filepath.Join(g.Common, name)), stubs.Leave); err != nil {
			return err
		}
	}
	return nil
}

// tree adds protected paths below one writable bind, each with its ancestors
// pinned, once.
type tree struct {
	v      *View
	root   string
	names  map[string]bool // what lies at the top; nil where that cannot be read
	pinned map[string]bool
	done   map[string]bool
}

func newTree(v *View, root string) *tree {
	t := &tree{v: v, root: root, pinned: map[string]bool{}, done: map[string]bool{}}
	if f, err := os.Open(root); err == nil {
		defer f.Close()
		if names, err := f.Readdirnames(-1); err == nil {
			t.names = make(map[string]bool, len(names))
			for _, name := range names {
				t.names[name] = true
			}
		}
	}
	return t
}

// bare tells that the top has nothing of the name under which a path lies, so
// that nobody needs to look further: most of the names are absent.
func (t *tree) bare(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	return t.names != nil && !t.names[first]
}

// protect makes a path read-only. An absent one is held by a stub, unless it is
// to be left.
func (t *tree) protect(rel string, absent stubs.Kind) error {
	if t.done[rel] || t.covered(rel) {
		return nil
	}
	if t.bare(rel) {
		if absent != stubs.Leave {
			t.hold(rel, absent)
		}
		return nil
	}
	full := filepath.Join(t.root, rel)
	fi, err := os.Lstat(full)
	if errors.Is(err, unix.ENOTDIR) {
		return nil // a file or link above it: nothing can appear there
	}
	if errors.Is(err, fs.ErrNotExist) {
		if absent == stubs.Leave || t.blocked(rel) {
			return nil
		}
		t.hold(rel, absent)
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", full, err)
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		// The link itself is held, and what it leads to inside the project.
		if real, err := realpath.Of(full); err == nil && realpath.Inside(real, t.root) && real != t.root {
			r, err := filepath.Rel(t.root, real)
			if err != nil {
				return fmt.Errorf("protect %s: %w", full, err)
			}
			if err := t.protect(r, stubs.Leave); err != nil {
				return err
			}
		}
	}
	if ignore := filepath.Join(rel, ".gitignore"); absent == stubs.Ignoring && fi.IsDir() {
		if _, err := os.Lstat(filepath.Join(t.root, ignore)); errors.Is(err, fs.ErrNotExist) {
			t.v.stubs = append(t.v.stubs, stubs.Stub{Root: t.root, Rel: ignore, Kind: stubs.File})
		}
	}
	t.pin(rel)
	t.done[rel] = true
	socket := fi.Mode()&fs.ModeSocket != 0 // another session's stub, or a way out
	t.v.Protect = append(t.v.Protect, sandbox.Protect{Target: sandbox.GuestPath(full), File: !fi.IsDir(), Empty: socket, Yields: socket})
	return nil
}

// hold makes a stub where nothing is.
func (t *tree) hold(rel string, k stubs.Kind) {
	t.pin(rel)
	t.done[rel] = true
	cover := sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(t.root, rel))}
	switch k {
	case stubs.Leave:
		return
	case stubs.Folder:
		cover.Empty, cover.Yields = true, true
	case stubs.Blank:
		cover.File, cover.Empty, cover.Yields = true, true, true
	case stubs.File:
		cover.File = true
	case stubs.Ignoring:
		k = stubs.Folder
		t.v.stubs = append(t.v.stubs, stubs.Stub{Root: t.root, Rel: filepath.Join(rel, ".gitignore"), Kind: stubs.File})
	}
	t.v.stubs = append(t.v.stubs, stubs.Stub{Root: t.root, Rel: rel, Kind: k})
	t.v.Protect = append(t.v.Protect, cover)
}

// blocked tells whether something that is no folder lies above an absent path:
// nothing can appear below it.
func (t *tree) blocked(rel string) bool {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(t.root, dir)); err == nil {
			return !fi.IsDir()
		}
	}
	return false
}

// covered tells whether an ancestor is protected whole already.
func (t *tree) covered(rel string) bool {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if t.done[dir] {
			return true
		}
	}
	return false
}

// pin holds the folders above a protected path, so that none can be renamed.
func (t *tree) pin(rel string) {
	var chain []string
	for dir := filepath.Dir(rel); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		chain = append(chain, dir)
	}
	slices.Reverse(chain)
	for _, dir := range chain {
		if !t.pinned[dir] {
			t.pinned[dir] = true
			t.v.Protect = append(t.v.Protect, sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(t.root, dir)), Pin: true})
		}
	}
}

// holdCommon keeps a main git folder from being led elsewhere by a commondir
// file, which git obeys there too. It cannot be held by an empty folder, since
// git fails on that; a file that says "here" changes nothing for git.
func (t *tree) holdCommon(git string) error {
	return t.protect(filepath.Join(git, "commondir"), stubs.File)
}

// modules protects what git obeys of the submodules of one git folder.
func (t *tree) modules(git string) error {
	parts, closed := modules(filepath.Join(t.root, git))
	for i := range closed {
		closed[i] = filepath.Join(git, closed[i])
	}
	t.close(closed)
	for _, m := range parts {
		if err := t.protect(filepath.Join(git, m), stubs.Leave); err != nil {
			return err
		}
		if filepath.Base(m) == "config" {
			if err := t.holdCommon(filepath.Join(git, filepath.Dir(m))); err != nil {
				return err
			}
		}
		t.unplace(filepath.Join(git, m))
	}
	return nil
}

// close shows shut folders empty, so that nobody inside can open them.
func (t *tree) close(list []string) {
	for _, rel := range list {
		if !t.covered(rel) {
			t.cover(sandbox.Protect{}, rel)
		}
	}
}

// hide shows the matching files empty, and shut folders in which some could match.
func (t *tree) hide(glob string) error {
	if !filepath.IsLocal(glob) {
		return fmt.Errorf("hide %s: not a pattern inside the project", glob)
	}
	parts := strings.Split(filepath.Clean(glob), string(filepath.Separator))
	for i := range parts[1:] {
		above, err := filepath.Glob(filepath.Join(t.root, filepath.Join(parts[:i+1]...)))
		if err != nil {
			return fmt.Errorf("hide %s: %w", glob, err)
		}
		for _, dir := range above {
			if rel, err := filepath.Rel(t.root, dir); err == nil && shut(dir) {
				t.close([]string{rel})
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(t.root, glob))
	if err != nil {
		return fmt.Errorf("hide %s: %w", glob, err)
	}
	for _, full := range found {
		rel, err := filepath.Rel(t.root, full)
		if err != nil {
			return fmt.Errorf("hide %s: %w", glob, err)
		}
		fi, err := os.Lstat(full)
		if err != nil || fi.Mode()&fs.ModeSymlink != 0 || t.done[rel] || t.covered(rel) {
			continue
		}
		t.cover(sandbox.Protect{File: !fi.IsDir()}, rel)
	}
	return nil
}

// cover shows a path empty.
func (t *tree) cover(p sandbox.Protect, rel string) {
	if t.done[rel] {
		return
	}
	t.pin(rel)
	t.done[rel] = true
	p.Target, p.Empty, p.Fleeting = sandbox.GuestPath(filepath.Join(t.root, rel)), true, p.File
	t.v.Protect = append(t.v.Protect, p)
}

// writable are the folders of the host, but the private home, to which the
// session may write.
func (v *View) writable(o Options) []string {
	var out []string
	if p := v.project; !o.None && !o.Overlay {
		out = append(out, string(p.Root))
		if p.Git != nil && !realpath.Inside(p.Git.Common, string(p.Root)) {
			out = append(out, p.Git.Common)
		}
	}
	for _, e := range o.Expose {
		if real, err := realpath.Of(e.Path); err == nil && e.Access == sandbox.ReadWrite {
			out = append(out, real)
		}
	}
	return out
}

// makeStubs makes the planned stubs, and adapts the covers to what came of them.
func (v *View) makeStubs() error {
	path := func(s stubs.Stub) string { return filepath.Join(s.Root, s.Rel) }
	return v.held.Make(v.stubs, func(s stubs.Stub) {
		if s.Kind == stubs.Blank {
			v.coverAsFound(path(s))
		}
	}, func(s stubs.Stub) {
		v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool { return realpath.Inside(string(p.Target), path(s)) })
	})
}

// coverAsFound makes the cover of a stub a folder where it became one.
func (v *View) coverAsFound(full string) {
	fi, err := os.Lstat(full)
	for i := range v.Protect {
		if p := &v.Protect[i]; err == nil && fi.IsDir() && string(p.Target) == full {
			p.File = false
		}
	}
}

// Release removes the stubs if no other session of the project needs them.
func (v *View) Release() error {
	if v == nil {
		return nil
	}
	return v.held.Release()
}
