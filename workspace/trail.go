package workspace

import (
	"path/filepath"
	"slices"
	"strings"

	"cloister/workspace/protect"
)

// A trail is what the folders above a name say of it, worked out once for a folder: a walk
// asks for each file of a project.
type trail struct {
	auto    bool // one of them is obeyed by its name
	skipped bool // one of them holds no settings
	github  bool // the last one is .github
	git     bool // one of them is a git folder, in any spelling
	hooks   bool // one of them is a hooks folder in a git folder
	info    bool
	sl, hg  bool
	jj      bool
	darcs   bool
}

// trailOf is the trail of what lies in a folder, by its path relative to a project's top.
func trailOf(dir string) trail {
	var t trail
	if dir == "" || dir == "." {
		return t
	}
	for part := range strings.SplitSeq(dir, string(filepath.Separator)) {
		t = t.into(part)
	}
	return t
}

// into is the trail of what lies in a folder of that name.
func (t trail) into(name string) trail {
	part := strings.ToLower(name)
	out := t
	out.auto = t.auto || t.named(part)
	out.hooks = t.hooks || t.git && part == "hooks"
	out.github = part == ".github"
	out.skipped = t.skipped || slices.Contains(protect.Skipped, part)
	switch part {
	case ".git":
		out.git = true
	case "info":
		out.info = true
	case ".sl":
		out.sl = true
	case ".hg":
		out.hg = true
	case ".jj":
		out.jj = true
	case "_darcs":
		out.darcs = true
	}
	return out
}

// named reports whether a name in lower case is obeyed wherever it is, or with what is in it.
func (t trail) named(part string) bool {
	return !t.skipped && protect.Name(part) || t.github && part == "workflows"
}

// obeyed reports whether programs of the host run or obey what has a name there.
func (t trail) obeyed(name string) bool {
	name = strings.ToLower(name)
	if t.auto || t.named(name) || t.hooks && !strings.HasSuffix(name, ".sample") {
		return true
	}
	switch name {
	case ".git":
		return true
	case "config":
		return t.git || t.sl
	case "config.worktree", "commondir", "gitdir", "git-rebase-todo":
		return t.git
	case "hgrc", "hgrc-not-shared", "sharedpath": // Mercurial's, with hooks and extensions
		return t.hg
	case "config.toml": // Jujutsu's
		return t.jj
	case "defaults": // Darcs', with hooks
		return t.darcs
	case "attributes", "alternates", "http-alternates":
		return t.git && t.info
	}
	return false
}

// autoRunPath reports whether a path relative to a project's top is one that the
// host's programs run or obey.
func autoRunPath(rel string) bool {
	return trailOf(filepath.Dir(rel)).obeyed(filepath.Base(rel))
}
