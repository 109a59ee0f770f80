package gated

import (
	"strings"

	"cloister/workspace"
)

// Why a path does not arrive.
const (
	runs     = "programs of the host may run or obey it"
	shape    = "git may take its folder for a repository"
	leadsOut = "the link leads out of the project, or may"
	noFile   = "it is a pipe, socket or device"
)

// held says why an entry of a payload's waits for a person, or nothing.
func held(rel string, e entry) string {
	isLink := e.kind == link
	if inner, ok := strings.CutPrefix(rel, ".git/"); ok {
		if isLink || !ofGit(inner) {
			return runs
		}
		return ""
	}
	if rel == ".git" && e.kind == dir {
		return ""
	}
	if e.kind == special {
		return noFile
	}
	if workspace.RunsByItself(rel) {
		return runs
	}
	// A folder is a repository without a .git once it has a HEAD, whatever came before.
	switch strings.ToLower(rel[strings.LastIndexByte(rel, '/')+1:]) {
	case "head", ".git":
		return shape
	}
	if !isLink {
		return ""
	}
	if leads(rel, e.target) {
		return leadsOut
	}
	for _, name := range []string{"config", "hgrc", "hooks/x", "workflows/x", "config.toml", "prefs/defaults"} {
		if workspace.RunsByItself(rel + "/" + name) {
			return runs
		}
	}
	return ""
}

// ofGit reports whether a path of a repository is what git only reads as data: objects, refs,
// their logs and the state of a command. Settings, hooks and places of other repositories are
// not, and neither is a lock, which means something only beside the one it locks out.
func ofGit(inner string) bool {
	if strings.HasSuffix(inner, ".lock") {
		return false
	}
	first, rest, below := strings.Cut(inner, "/")
	switch first {
	case "refs", "logs":
		return true
	case "objects":
		return !below || !strings.HasPrefix(rest, "info/")
	case "HEAD", "index", "packed-refs", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "COMMIT_EDITMSG":
		return !below
	}
	return false
}

// leads reports whether a link may lead out of the project. Only leading ".." are counted: one
// that comes after a name is of where that name leads, which may be a link too.
func leads(rel, target string) bool {
	if target == "" || target[0] == '/' {
		return true
	}
	depth, down := strings.Count(rel, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

// passing reports whether a path is of no interest to the other side: our own folder of what
// comes in, and locks of git's.
func passing(rel string) bool {
	return rel == inbox || strings.HasPrefix(rel, inbox+"/") ||
		strings.HasPrefix(rel, ".git/") && (strings.HasSuffix(rel, ".lock") || strings.Contains(rel, "/tmp_obj_"))
}

// inbox is the one name in the view that is ours.
const inbox = ".cloister-gated"

// rank orders the paths that are due together: what git's refs and index name comes before them.
func rank(rel string) int {
	if inner, ok := strings.CutPrefix(rel, ".git/"); ok && !strings.HasPrefix(inner, "objects/") {
		return 1
	}
	return 0
}
