package workspace

import (
	"path/filepath"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
	"cloister/workspace/stubs"
)

// git protects what git runs or is led by, and shows a linked worktree the
// repository that it belongs to.
func (v *View) git(home string, tree *protect.Tree, g Git, o Options) error {
	root := string(v.project.Root)
	common, top := tree, root
	if g.File {
		if err := tree.Path(".git", stubs.Leave); err != nil {
			return err
		}
		if !realpath.Inside(g.Common, root) {
			if err := v.bind(home, sandbox.Bind{Source: sandbox.HostPath(g.Common), Target: sandbox.GuestPath(g.Common),
				Access: sandbox.ReadWrite}); err != nil {
				return err
			}
			common = protect.New(&v.List, g.Common, o.Data, o.Unprotected)
			top = g.Common
		}
	}
	rel := func(path string) string {
		r, err := filepath.Rel(top, path)
		if err != nil {
			return path
		}
		return r
	}
	base := rel(g.Common)
	if err := common.Repository(base); err != nil {
		return err
	}
	var sources hostgit.Configuration
	if o.Sources != nil {
		sources = o.Sources(hostgit.Folders{Common: g.Common, Dir: g.Dir, Tree: root})
	}
	if err := tree.Configured(protect.Places{Common: g.Common, Dir: g.Dir, Home: v.home, Files: sources.Files,
		Entries: sources.Entries}); err != nil {
		return err
	}
	// What leads to working trees is the host's, also of those that the host makes
	// meanwhile: git of the host follows it. Only this one's own folder is written.
	admin := filepath.Join(g.Common, "worktrees")
	if g.Dir == g.Common {
		return common.Path(rel(admin), stubs.Folder)
	}
	v.Binds = append(v.Binds,
		sandbox.Bind{Source: sandbox.HostPath(admin), Target: sandbox.GuestPath(admin)},
		sandbox.Bind{Source: sandbox.HostPath(g.Dir), Target: sandbox.GuestPath(g.Dir), Access: sandbox.ReadWrite})
	for name, absent := range map[string]stubs.Kind{"gitdir": stubs.Leave, "commondir": stubs.Leave,
		"config.worktree": stubs.File} {
		if err := common.Path(rel(filepath.Join(g.Dir, name)), absent); err != nil {
			return err
		}
	}
	if err := common.Modules(rel(g.Dir)); err != nil {
		return err
	}
	// The main working tree is not this cloister's to move.
	for _, name := range []string{"HEAD", "index"} {
		if err := common.Path(rel(filepath.Join(g.Common, name)), stubs.Leave); err != nil {
			return err
		}
	}
	return nil
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
		if e.Access == sandbox.ReadWrite {
			out = append(out, e.Path) // see named
		}
	}
	return out
}

// excludeOf is where git of the host reads what to pass over in a repository, and in
// no other.
func excludeOf(g *Git) string { return filepath.Join(g.Common, "info/exclude") }

// quiet holds names of files by empty files where git can be made to pass over them:
// sockets are in the way of programs that copy or pack a project.
func (v *View) quiet() error {
	var names []string
	root := string(v.project.Root)
	for _, s := range v.Stubs {
		if s.Kind == stubs.Blank && s.Root == root {
			names = append(names, s.Rel)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if g := v.project.Git; g != nil {
		if hidden, err := v.held.Hide(excludeOf(g), names); err != nil || !hidden {
			return err
		}
	}
	covers := covers{list: &v.Protect}
	for i, s := range v.Stubs {
		if s.Kind == stubs.Blank && s.Root == root {
			v.Stubs[i].Kind = stubs.File
			if at := covers.of(filepath.Join(root, s.Rel)); len(at) > 0 {
				v.Protect[at[0]].Empty, v.Protect[at[0]].Yields = false, false
			}
		}
	}
	return nil
}
