package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/gitdir"
)

// Project is the folder that a cloister works on.
type Project struct {
	Root sandbox.HostPath
	// Main is its identity: the host path of the repository's main working
	// tree, which all of them share, or Root.
	Main sandbox.HostPath
	Dir  sandbox.HostPath // the folder inside it where the command starts
	Git  *Git             // nil where there is no repository
}

// ErrNoFolder says that the folder this process is in was removed.
var ErrNoFolder error = noFolder{}

type noFolder struct{}

func (noFolder) Error() string { return "find project: the folder you are in does not exist any more" }

// Hints are the words of what to do.
func (noFolder) Hints() []string { return []string{"go to one that does, or name one with -C DIR"} }

// TooWide says that a folder cannot be a project: it holds what the cloister
// must not see.
type TooWide struct {
	Root, Holds string
	Residue     string // the word that accepts it; empty where no word does
}

func (e *TooWide) Error() string {
	return fmt.Sprintf("use %s as the project: it holds %s, which no cloister may see", e.Root, e.Holds)
}

// Hints are the words of what to do.
func (e *TooWide) Hints() []string {
	h := []string{"start in a project folder, or name one with -C DIR"}
	if e.Residue != "" {
		return append(h, "or go on all the same: --accept residue:"+e.Residue)
	}
	return append(h, "what it needs of this host besides its toolchains is shown by --expose PATH")
}

// Find gives the project that a folder belongs to: the top of its repository,
// or the folder itself. No link is followed to the folder: where one leads is a matter of
// host/resolve, and a payload could make one after that has looked.
func Find(dir string) (Project, error) {
	abs, err := filepath.Abs(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Project{}, ErrNoFolder
	}
	if err != nil {
		return Project{}, fmt.Errorf("find project: %w", err)
	}
	real, err := realpath.Of(abs)
	if err != nil {
		return Project{}, fmt.Errorf("find project: %w", err)
	}
	if real != abs {
		return Project{}, fmt.Errorf("find project: %s leads to %s by a symbolic link", abs, real)
	}
	fi, err := os.Lstat(real)
	if err != nil {
		return Project{}, fmt.Errorf("find project: %w", err)
	}
	if !fi.IsDir() {
		return Project{}, fmt.Errorf("find project: %s is not a folder", dir)
	}
	for at := real; ; at = filepath.Dir(at) {
		git, err := findGit(at)
		if err != nil {
			return Project{}, err
		}
		if git != nil {
			root := sandbox.HostPath(at)
			return Project{Root: root, Main: mainOf(root, git), Dir: sandbox.HostPath(real), Git: git}, nil
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return Project{Root: sandbox.HostPath(real), Main: sandbox.HostPath(real), Dir: sandbox.HostPath(real)}, nil
}

// Author is whose commits are made inside.
type Author struct{ Name, Email string }

// FindAuthor reads the person's name from the repository's configuration or
// from the one in their home. Nothing else of these files goes inside.
func FindAuthor(home string, g *Git) Author {
	var all [][]gitdir.Entry
	if g != nil {
		all = append(all, gitdir.Read(filepath.Join(g.Common, "config")))
	}
	if home != "" {
		for _, name := range []string{".gitconfig", ".config/git/config"} {
			all = append(all, gitdir.ReadOwn(filepath.Join(home, name)))
		}
	}
	var a Author
	for _, entries := range all {
		if a.Name == "" {
			a.Name = gitdir.Last(entries, "user", "name")
		}
		if a.Email == "" {
			a.Email = gitdir.Last(entries, "user", "email")
		}
	}
	return a
}

// Places are the folders that no project may contain.
type Places struct {
	Home   string
	State  []string // Cloister's own folders
	Socket []string // sockets of daemons that act for whoever reaches them
}

// residueWide accepts a project that is the whole home folder.
const residueWide = "wide-workspace"

// Check refuses a project that would show what a cloister must not see.
func (p Project) Check(places Places, accepted func(residue string) bool) error {
	root := string(p.Root)
	if root == "/" {
		return &TooWide{Root: root, Holds: "the whole host"}
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/boot", "/etc"} {
		if realpath.Inside(root, dir) {
			return &TooWide{Root: root, Holds: "the host's own files"}
		}
	}
	if slices.Contains([]string{"/usr", "/var", "/lib", "/bin", "/sbin", "/opt", "/home", "/tmp"}, root) {
		return &TooWide{Root: root, Holds: "the host's own files"}
	}
	for _, s := range places.Socket {
		if realpath.Inside(s, root) {
			return &TooWide{Root: root, Holds: s}
		}
	}
	for _, s := range places.State {
		if s != "" && realpath.Inside(root, s) {
			return &TooWide{Root: root, Holds: "Cloister's own state"}
		}
	}
	if places.Home != "" && realpath.Inside(places.Home, root) {
		e := &TooWide{Root: root, Holds: "your home folder"}
		if root == places.Home {
			e.Residue = residueWide
		}
		if e.Residue == "" || !accepted(e.Residue) {
			return e
		}
		return nil
	}
	for _, s := range places.State {
		if s != "" && realpath.Inside(s, root) {
			return &TooWide{Root: root, Holds: "Cloister's own state (" + s + ")"}
		}
	}
	return nil
}

// mainOf is the folder that a project is known by: that of the main working
// tree, whichever working tree of it this is.
func mainOf(root sandbox.HostPath, g *Git) sandbox.HostPath {
	if g == nil || g.Dir == g.Common {
		return root
	}
	if filepath.Base(g.Common) == ".git" {
		return sandbox.HostPath(filepath.Dir(g.Common))
	}
	return sandbox.HostPath(g.Common) // a bare repository
}
