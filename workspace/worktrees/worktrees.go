// Package worktrees keeps the working trees that Cloister makes of a project's branches.
//
// Promise: a branch has one; none is removed with what is nowhere else, unless a person
// says so.
//
// It starts nothing in them.
//
// Most readers want [Of].
package worktrees

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/host/resolve"
	"cloister/internal/durable"
	"cloister/internal/realpath"
	"cloister/internal/shellword"
	"cloister/workspace"
	"cloister/workspace/hostgit"
)

// Tree is one working tree of a project that Cloister made.
type Tree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
	Head   string `json:"head"`
}

// Branches are those of working trees.
func Branches(trees []Tree) []string {
	var out []string
	for _, t := range trees {
		out = append(out, t.Branch)
	}
	return out
}

// A Set is the managed working trees of one repository. They lie below one
// folder, out of every other cloister's sight.
type Set struct {
	project workspace.Project
	host    *resolve.Resolver
	folder  string // of this project's
	lock    string
}

// ErrBranchName says that git would not make a branch of that name.
var ErrBranchName = errors.New("git takes no branch of that name")

// ErrNoRepository says that a folder is in no git repository.
var ErrNoRepository = errors.New("it is in no git repository")

// Of gives the managed working trees of a project, which are kept below
// data. host finds git.
func Of(p workspace.Project, host *resolve.Resolver, data, locks string) (*Set, error) {
	if p.Git == nil {
		return nil, fmt.Errorf("worktrees of %s: %w", p.Root, ErrNoRepository)
	}
	name := filepath.Base(string(p.Main)) + "-" + hashOf(string(p.Main))
	return &Set{
		project: p, host: host, folder: filepath.Join(Dir(data), name),
		lock: filepath.Join(locks, hashOf(string(p.Main))+".worktrees"),
	}, nil
}

// Dir is where managed working trees are.
func Dir(data string) string { return filepath.Join(data, "worktrees") }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// pathOf is where a branch's working tree lies: by its name where that is a
// folder's, else with a mark that keeps two apart.
func (w *Set) pathOf(branch string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, branch)
	if name != branch || len(name) > 64 {
		name = name[:min(len(name), 64)] + "-" + hashOf(branch)
	}
	return filepath.Join(w.folder, name)
}

// CheckedOut says that a branch has a working tree of someone else's.
type CheckedOut struct{ Branch, Path string }

func (e *CheckedOut) Error() string {
	return fmt.Sprintf("worktree of %s: the branch is checked out at %s", e.Branch, e.Path)
}

// Hints are the words of what to do.
func (e *CheckedOut) Hints() []string {
	return []string{"work there: cloister start -C " + e.Path, "or check out another branch there first"}
}

// Renamed says that a managed working tree has another branch checked out than it was
// made for. A session in it can do that, and leave files there that no commit shows.
type Renamed struct{ Branch, Path string }

func (e *Renamed) Error() string {
	return fmt.Sprintf("worktree of %s: the branch is checked out at %s, which was made for another branch; a session "+
		"there could have done that", e.Branch, e.Path)
}

// Hints are the words of what to do.
func (e *Renamed) Hints() []string {
	return []string{"look at what lies there; to go on in it as it is: cloister start -C " + e.Path,
		"or check out the branch there that it was made for, then try again"}
}

// Other says that the working tree of a branch has another one checked out.
type Other struct{ Branch, Path, Has string }

func (e *Other) Error() string {
	has := e.Has
	if has == "" {
		has = "no branch"
	}
	return fmt.Sprintf("worktree of %s: %s, which was made for it, has %s checked out", e.Branch, e.Path, has)
}

// Hints are the words of what to do.
func (e *Other) Hints() []string {
	return []string{"to go on in it as it is: cloister start -C " + e.Path,
		"or check " + e.Branch + " out there, then try again"}
}

// Open gives the working tree of a branch: the one there is, or a new one, of
// the branch, of origin's branch of that name, or of a new branch from HEAD.
func (w *Set) Open(ctx context.Context, branch string) (path string, made bool, err error) {
	defer func() {
		if err != nil && !errors.As(err, new(*CheckedOut)) && !errors.As(err, new(*Renamed)) && !errors.As(err, new(*Other)) {
			err = fmt.Errorf("worktree of %s: %w", branch, err)
		}
	}()
	unlock, err := w.hold()
	if err != nil {
		return "", false, err
	}
	defer unlock()
	git, err := w.git(ctx)
	if err != nil {
		return "", false, err
	}
	// Not with --branch: that opens the repository, and ends alike for a name that
	// cannot be and for whatever else went wrong.
	_, err = git.Run(ctx, "check-ref-format", "refs/heads/"+branch)
	if hostgit.ExitedWith(err, 1) || strings.HasPrefix(branch, "-") || branch == "HEAD" {
		return "", false, ErrBranchName
	}
	if err != nil {
		return "", false, err
	}
	all, err := all(ctx, git)
	if err != nil {
		return "", false, err
	}
	path = w.pathOf(branch)
	for _, t := range all {
		if t.Branch != branch {
			if _, err := os.Lstat(t.Path); err == nil && t.Path == path {
				return "", false, &Other{Branch: branch, Path: path, Has: t.Branch}
			}
			continue
		}
		if t.Path != path && realpath.Inside(t.Path, w.folder) {
			return "", false, &Renamed{branch, t.Path}
		}
		if !realpath.Inside(t.Path, w.folder) {
			return "", false, &CheckedOut{branch, t.Path}
		}
		if _, err := os.Stat(t.Path); err == nil {
			return t.Path, false, nil
		}
		// Its folder was removed by hand.
		if _, err := git.Run(ctx, "worktree", "prune"); err != nil {
			return "", false, err
		}
	}
	if err := os.MkdirAll(w.folder, 0o700); err != nil {
		return "", false, err
	}
	args := []string{"worktree", "add", "--quiet", path, branch}
	switch local, err := has(ctx, git, "refs/heads/"+branch); {
	case err != nil:
		return "", false, err
	case !local:
		args = []string{"worktree", "add", "--quiet", "--no-track", "-b", branch, path, "HEAD"}
		if remote, err := has(ctx, git, "refs/remotes/origin/"+branch); err != nil {
			return "", false, err
		} else if remote {
			args = []string{"worktree", "add", "--quiet", "--track", "-b", branch, path, "origin/" + branch}
		} else if born, err := has(ctx, git, "HEAD"); err != nil || !born {
			return "", false, errors.Join(err, errors.New("the repository has no commit yet"))
		}
	}
	if _, err := git.Run(ctx, args...); err != nil {
		return "", false, err
	}
	return path, true, nil
}

// hold keeps two callers apart.
func (w *Set) hold() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(w.lock), 0o700); err != nil {
		return nil, err
	}
	f, err := durable.Lock(w.lock)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// git is for the repository, without a working tree.
func (w *Set) git(ctx context.Context) (*hostgit.Repo, error) {
	return hostgit.Open(ctx, w.host, hostgit.Folders{Common: w.project.Git.Common, Dir: w.project.Git.Common})
}

func has(ctx context.Context, git *hostgit.Repo, ref string) (bool, error) {
	_, err := git.Run(ctx, "rev-parse", "--quiet", "--verify", ref+"^{commit}")
	if hostgit.ExitedWith(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// all lists every working tree that the repository knows.
func all(ctx context.Context, git *hostgit.Repo) ([]Tree, error) {
	text, err := git.Run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	var out []Tree
	for line := range strings.SplitSeq(text, "\x00") {
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "worktree":
			out = append(out, Tree{Path: rest})
		case "HEAD":
			out[len(out)-1].Head = rest
		case "branch":
			out[len(out)-1].Branch = strings.TrimPrefix(rest, "refs/heads/")
		}
	}
	return out, nil
}

// List gives the managed working trees.
func (w *Set) List(ctx context.Context) ([]Tree, error) {
	git, err := w.git(ctx)
	if err != nil {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	trees, err := all(ctx, git)
	if err != nil {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	out := []Tree{}
	for _, t := range trees {
		if realpath.Inside(t.Path, w.folder) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Loss is what the removal of a working tree would lose.
type Loss struct {
	Branch  string
	Changed []string // files that are not committed, at most ten
	More    int      // beyond them
	Commits int      // that are on no other branch and at no remote
	Project string   // where the person is not in it, for the hint
}

func (l *Loss) Error() string {
	var parts []string
	if n := len(l.Changed) + l.More; n > 0 {
		parts = append(parts, fmt.Sprintf("%d uncommitted (%s%s)", n, strings.Join(l.Changed, ", "), more(l.More)))
	}
	if l.Commits > 0 {
		parts = append(parts, fmt.Sprintf("%d unpushed %s on %s", l.Commits, plural(l.Commits, "commit"), l.Branch))
	}
	return fmt.Sprintf("remove worktree of %s: it would lose %s", l.Branch, strings.Join(parts, " and "))
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// Hints are the words of what to do.
func (l *Loss) Hints() []string {
	words := []string{"cloister", "worktree", "remove", "--force", l.Branch}
	if l.Project != "" {
		words = slices.Insert(words, 3, "-C", l.Project)
	}
	return []string{"commit and push it, or lose it: " + shellword.Line(words...)}
}

// Remove takes a working tree away; its branch stays. Unless force is set it
// refuses to lose work: files that are not committed, ignored ones aside, and
// commits that are nowhere else.
func (w *Set) Remove(ctx context.Context, branch string, force bool) error {
	unlock, err := w.hold()
	if err != nil {
		return fmt.Errorf("remove worktree of %s: %w", branch, err)
	}
	defer unlock()
	trees, err := w.List(ctx)
	if err != nil {
		return err
	}
	for _, t := range trees {
		if t.Path == w.pathOf(branch) { // whatever a session called it since
			return w.remove(ctx, t, force)
		}
	}
	for _, t := range trees {
		if t.Branch == branch || t.Path == branch || filepath.Base(t.Path) == branch {
			return w.remove(ctx, t, force)
		}
	}
	return &Absent{Branch: branch, Known: trees}
}

// Absent says that no managed working tree has that branch.
type Absent struct {
	Branch string
	Known  []Tree
}

func (e *Absent) Error() string {
	return fmt.Sprintf("remove worktree of %s: there is none", e.Branch)
}

func (w *Set) remove(ctx context.Context, t Tree, force bool) error {
	fail := func(err error) error { return fmt.Errorf("remove worktree of %s: %w", t.Branch, err) }
	git, err := w.git(ctx)
	if err != nil {
		return fail(err)
	}
	if _, err := os.Stat(t.Path); errors.Is(err, fs.ErrNotExist) {
		if _, err := git.Run(ctx, "worktree", "prune"); err != nil {
			return fail(err)
		}
		return nil
	}
	if !force {
		loss, err := w.loss(ctx, git, t)
		if err != nil {
			return fail(err)
		}
		if loss != nil {
			return loss
		}
	}
	// Git removes it, with force: what it would refuse has been looked at.
	if _, err := git.Run(ctx, "worktree", "remove", "--force", t.Path); err != nil {
		return fail(err)
	}
	_ = os.Remove(w.folder) // another one's worktree may be there
	return nil
}

// loss looks at what would be lost; nil for nothing.
func (w *Set) loss(ctx context.Context, git *hostgit.Repo, t Tree) (*Loss, error) {
	p, err := workspace.Find(t.Path)
	if err != nil {
		return nil, err
	}
	if p.Git == nil || p.Git.Common != w.project.Git.Common || string(p.Root) != t.Path {
		return nil, fmt.Errorf("%s is not a worktree of %s any more", t.Path, w.project.Git.Common)
	}
	inTree, err := hostgit.Open(ctx, w.host, hostgit.Folders{Common: p.Git.Common, Dir: p.Git.Dir, Tree: t.Path})
	if err != nil {
		return nil, err
	}
	if err := hostgit.NoPipe(t.Path); err != nil {
		return nil, err
	}
	text, err := inTree.Run(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames",
		"--ignore-submodules=dirty")
	if err != nil {
		return nil, err
	}
	loss := &Loss{Branch: t.Branch}
	for entry := range strings.SplitSeq(text, "\x00") {
		if len(entry) < 4 {
			continue
		}
		if len(loss.Changed) == 10 {
			loss.More++
			continue
		}
		loss.Changed = append(loss.Changed, entry[3:])
	}
	// Git would run what a submodule configures to look into it.
	modules, err := inTree.Run(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(modules, "\x00") {
		head, path, _ := strings.Cut(entry, "\t")
		if _, err := os.Lstat(filepath.Join(t.Path, path, ".git")); strings.HasPrefix(head, "160000 ") && err == nil {
			loss.Changed = append(loss.Changed, path+" (a submodule, which is not looked into)")
		}
	}
	// The branch outlives its working tree, so commits on it are not lost; those
	// of a detached HEAD are. Still a person wants to know of what is only here.
	count, err := git.Run(ctx, "rev-list", "--count", t.Head, "--not", "--exclude="+t.Branch, "--branches", "--remotes")
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(count, &loss.Commits); err != nil {
		return nil, err
	}
	if len(loss.Changed) == 0 && loss.Commits == 0 {
		return nil, nil
	}
	return loss, nil
}
