package gitdir

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cloister/host/resolve"
)

// TopGuard is what is held beside a project's .git, so that git of the host takes the
// project's top for no repository of its own should .git be none any more.
const TopGuard = "commondir"

// open reports whether a folder's owner may enter and list it. Root may everywhere, and the
// session that root starts is not root.
func open(dir string) bool {
	fi, err := os.Stat(dir)
	return err == nil && fi.IsDir() && fi.Mode().Perm()&0o500 == 0o500
}

// Looks reports whether a folder has what every git folder has.
func Looks(dir string) bool {
	if !open(dir) {
		return false
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// Valid reports whether git takes a folder for a git folder (is_git_directory of its
// setup.c). Where it does not, it looks at the folders around.
func Valid(dir string) bool {
	if !open(dir) || !validHead(dir) {
		return false
	}
	for _, name := range []string{"objects", "refs"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !fi.IsDir() || fi.Mode()&0o100 == 0 {
			return false
		}
	}
	return true
}

// headText reports whether a text is what git takes for a HEAD: the name of a ref, or an object.
func headText(text string) bool {
	const space = " \t\n\f\r"
	if to, ok := strings.CutPrefix(text, "ref:"); ok {
		name, ok := strings.CutPrefix(strings.TrimLeft(to, space), "refs/")
		return ok && strings.TrimLeft(name, space) == name && name != ""
	}
	return len(text)-len(strings.TrimLeft(text, "0123456789abcdef")) >= 40
}

// validHead is git's validate_headref.
func validHead(dir string) bool {
	path := filepath.Join(dir, "HEAD")
	fi, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if fi.Mode()&os.ModeSymlink != 0 {
		to, err := os.Readlink(path)
		return err == nil && strings.HasPrefix(to, "refs/")
	}
	text, ok := Head(dir)
	return ok && headText(text)
}

// Head is what a git folder's HEAD says; ok is false where it cannot be read.
func Head(dir string) (text string, ok bool) {
	head, err := resolve.ReadFile(filepath.Join(dir, "HEAD"), 4096)
	return string(head), err == nil
}

// Text reads a file below a top, whatever links say; ok is false for one that is no
// regular file or too large.
func Text(root, rel string) (text string, ok bool) {
	dir, err := resolve.OpenRoot(root)
	if err != nil {
		return "", false
	}
	defer dir.Close()
	f, err := dir.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	return readRegular(f, maxConfig)
}

func readRegular(f *os.File, most int64) (string, bool) {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > most {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err == nil
}

// Mend makes a git folder one again, so that git looks no further: its HEAD as it was,
// where it is gone or no HEAD, and the folders open to their owner. It tells what it
// changed, relative to the folder. What cannot be mended stays as it is; ask Valid.
func Mend(dir, head string) (changed []string) {
	for _, name := range []string{".", "objects", "refs"} {
		full := filepath.Join(dir, name)
		if fi, err := os.Lstat(full); err == nil && fi.IsDir() && fi.Mode().Perm()&0o700 != 0o700 &&
			os.Chmod(full, fi.Mode().Perm()|0o700) == nil {
			changed = append(changed, name)
		}
	}
	if head == "" || validHead(dir) {
		return changed
	}
	r, err := resolve.OpenRoot(dir)
	if err != nil {
		return changed
	}
	defer r.Close()
	// What is in its place stays beside it, under a name that git does not know.
	if _, err := r.Lstat("HEAD"); err == nil && r.Rename("HEAD", "HEAD.set-aside") != nil {
		return changed
	}
	if f, err := r.OpenFile("HEAD", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		_, err = f.WriteString(head)
		if f.Close() == nil && err == nil {
			changed = append(changed, "HEAD")
		}
	}
	return changed
}

// known are the names of a git folder's top that git and its common companions make.
var known = []string{
	"HEAD", "index", "objects", "refs", "reftable", "logs", "packed-refs", "config", "config.worktree", "description",
	"hooks", "info",
	"branches", "remotes", "modules", "worktrees", "commondir", "gitdir", "locked", "shallow", "lfs", "rr-cache",
	"sequencer",
	"rebase-merge", "rebase-apply", "gc.log", "gc.pid", "fsmonitor--daemon", "fsmonitor--daemon.ipc", "subtree-cache",
	"filter-repo",
	"addp-hunk-edit.diff", "ADD_EDIT.patch", "commit-template",
	"COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", // of the shape below: most repositories need no pattern
}

var knownShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^([A-Z][A-Z0-9_]*(_HEAD|_MSG|_MODE|_RR|_EDITMSG|_DESCRIPTION|_AUTOSTASH)|AUTO_MERGE|BISECT_[A-Z_]+|` +
			`NOTES_MERGE_[A-Z_]+|sharedindex\.[0-9a-f]+|next-index-[0-9]+|tmp_[A-Za-z0-9_]+|index\.stash\.[0-9]+)$`)
})

// Known reports whether a name at the top of a git folder is one that git makes there.
func Known(name string) bool {
	name = strings.TrimSuffix(name, ".lock")
	return slices.Contains(known, name) || knownShape().MatchString(name)
}

var (
	loose = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^([0-9a-f]{38}|[0-9a-f]{62}|tmp_obj_\w+)$`) })
	quarantine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(incoming|tmp_objdir|bulk-fsync|remerge-diff)[-\w]*$`)
	})
	packFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(\.?tmp[-_][-\w.]+|\.?(pack|loose|multi-pack-index)(-[-0-9a-f]+)?(\.[a-z.]+)*|multi-pack-index\.d)$`)
	})
	infoFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(tmp_graph_\w+|[-\w]+\.lock|packs_\w+)$`)
	})
	graphFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(commit-graph-chain(\.lock)?|graph-[0-9a-f]+\.graph|tmp_graph_\w+)$`)
	})
	midxFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(multi-pack-index-[-0-9a-f.a-z]+|multi-pack-index-chain)$`)
	})
)

// infoNames are what git keeps in the folder info of its objects; beside them lie what it
// is about to make of them, by the pattern.
var infoNames = []string{"packs", "alternates", "http-alternates", "commit-graph", "commit-graphs"}

// Fanout reports whether a name is that of a folder of single objects.
func Fanout(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

// KnownObject reports whether a path below a git folder's objects is one that git makes
// there. A repository planted among them is none.
func KnownObject(rel string, dir bool) bool {
	parts := strings.Split(rel, "/")
	plain := Fanout(parts[0]) || parts[0] == "info" || parts[0] == "pack"
	if !plain && quarantine().MatchString(parts[0]) {
		if len(parts) == 1 {
			return dir
		}
		parts = parts[1:] // it is made as objects are
	}
	first, last := parts[0], parts[len(parts)-1]
	switch {
	case len(parts) == 1 && dir:
		return first == "info" || first == "pack" || Fanout(first)
	case len(parts) == 1:
		return strings.HasPrefix(first, "tmp_obj_") || first == "maintenance.lock"
	case Fanout(first):
		return len(parts) == 2 && !dir && loose().MatchString(last)
	case first == "pack" && len(parts) == 2:
		return packFile().MatchString(last) && dir == (last == "multi-pack-index.d")
	case first == "pack" && len(parts) == 3:
		return parts[1] == "multi-pack-index.d" && !dir && midxFile().MatchString(last)
	case first == "info" && len(parts) == 2:
		return (slices.Contains(infoNames, last) || infoFile().MatchString(last)) && dir == (last == "commit-graphs")
	case first == "info" && len(parts) == 3:
		return parts[1] == "commit-graphs" && !dir && graphFile().MatchString(last)
	}
	return false
}
