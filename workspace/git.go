package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/host/resolve"
	"cloister/internal/realpath"
	"cloister/workspace/gitdir"
)

// Git is where a repository keeps itself.
type Git struct {
	Dir    string // of this working tree
	Common string // shared by all working trees; equals Dir in the main one
	File   bool   // .git is a file that points to Dir
}

// maxPointer bounds a .git, gitdir or commondir file: a path and a newline.
const maxPointer = 4096 + 16

// findGit looks at one folder's .git. A pointer is followed only as far as both
// ends agree: the place that it names must point back, so that a planted
// pointer grants nothing (zero#805, nono#1773).
func findGit(at string) (*Git, error) {
	dot := filepath.Join(at, ".git")
	fi, err := os.Lstat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find project: %w", err)
	case fi.IsDir():
		if !gitdir.Looks(dot) {
			return nil, nil
		}
		return &Git{Dir: dot, Common: dot}, nil
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("find project: %s is neither a folder nor a file; git would follow it out of the project", dot)
	}
	dir, err := readPointer(dot, "gitdir: ", at)
	if err != nil {
		return nil, fmt.Errorf("find project: %w", err)
	}
	common, err := readPointer(filepath.Join(dir, "commondir"), "", dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A submodule's or a separate git folder: it names its working tree.
		if !gitdir.Looks(dir) || !namesWorktree(dir, at) {
			return nil, fmt.Errorf("find project: %s points to %s, which does not point back", dot, dir)
		}
		return &Git{Dir: dir, Common: dir, File: true}, nil
	case err != nil:
		return nil, fmt.Errorf("find project: %w", err)
	}
	back, err := readPointer(filepath.Join(dir, "gitdir"), "", dir)
	if err != nil || back != dot {
		return nil, fmt.Errorf("find project: %s points to %s, which does not point back (git worktree repair mends that)",
			dot, dir)
	}
	if filepath.Dir(dir) != filepath.Join(common, "worktrees") || !gitdir.Looks(common) {
		return nil, fmt.Errorf("find project: %s is not a worktree of %s", dir, common)
	}
	return &Git{Dir: dir, Common: common, File: true}, nil
}

// readPointer reads a one-line file that holds a path and resolves it.
func readPointer(file, prefix, base string) (string, error) {
	text, err := readSmall(file)
	if err != nil {
		return "", err
	}
	path, err := parsePointer(text, prefix)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	parent, err := realpath.Of(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	if prefix == "" && filepath.Base(path) == ".git" {
		return filepath.Join(parent, ".git"), nil
	}
	return realpath.Of(path)
}

// readSmall reads a file that the agent may have planted. It may be a pipe: neither
// opening nor reading may wait for the agent. It may be made a link meanwhile, too, which
// is not followed.
func readSmall(file string) (string, error) {
	text, err := resolve.ReadFile(file, maxPointer)
	return string(text), err
}

func parsePointer(text, prefix string) (string, error) {
	line, rest, _ := strings.Cut(text, "\n")
	path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), prefix)
	if !ok || path == "" || strings.TrimSpace(rest) != "" || strings.ContainsRune(path, 0) || len(path) > 4096 {
		return "", errors.New("not the one line with a path that git writes there")
	}
	return path, nil
}

// namesWorktree reports whether a git folder's core.worktree is the given folder.
func namesWorktree(dir, at string) bool {
	value := gitdir.Last(gitdir.Read(filepath.Join(dir, "config")), "core", "worktree")
	if value == "" {
		return false
	}
	if !filepath.IsAbs(value) {
		value = filepath.Join(dir, value)
	}
	real, err := realpath.Of(value)
	return err == nil && real == at
}

// Branch is what is checked out, by its short name; empty for a commit without
// one and where that cannot be known.
func (g *Git) Branch() string {
	if g == nil {
		return ""
	}
	text, err := readSmall(filepath.Join(g.Dir, "HEAD"))
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(text), "ref: refs/heads/")
	if !ok {
		return ""
	}
	return name
}
