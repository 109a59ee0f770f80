package protect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/host/resolve"
)

// Bounds of the search below a project's top. A project that has more is not started in
// without a word (Unprotected).
const (
	maxEntries = 4_000_000
	maxNames   = 4000 // each costs a start two mounts or more
)

// found is what a search found, as paths relative to its top.
type found struct {
	names   []string // protected wherever they are
	gits    []string // git folders below the top
	sockets []string // whoever connects to one talks to a program of the host
	shut    []string // folders that their owner cannot list and enter
	hide    []match
	protect []match
	unseen  []Unprotected
	entries int
}

// match is a path that a pattern of a person's names.
type match struct {
	rel string
	dir bool
	by  int // which
}

// hit is what one entry of a folder is to a search.
type hit struct {
	kind byte
	name string
}

const (
	hitFolder  = 'd' // to be searched too
	hitData    = 'D' // of those that hold no settings: searched for patterns only
	hitName    = 'n'
	hitGit     = 'g'
	hitPointer = 'p'
	hitSocket  = 's'
	hitMatch   = 'm' // what a pattern may name
	hitMatched = 'M' // and is a folder
)

// search walks a project. A folder that is as it was at an earlier search is not read
// again (see cache).
type search struct {
	root          string
	hide, protect Patterns
	old, seen     *cache
	found         found
}

// Search finds what is to be protected below a top. data is Cloister's own folder.
func (l *search) run(data string) found {
	l.old = openCache(data, l.root, l.hide, l.protect)
	l.seen = l.old.next()
	l.folder("", false)
	l.seen.save(l.old)
	return l.found
}

// folder searches one folder; data tells that it holds no settings of host programs.
func (l *search) folder(rel string, data bool) {
	full := filepath.Join(l.root, rel)
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil {
		if errors.Is(err, unix.ENAMETOOLONG) {
			l.unseen(rel, "its path is longer than the kernel takes")
		}
		return // gone
	}
	if rel != "" && st.Mode&0o500 != 0o500 {
		l.found.shut = append(l.found.shut, rel)
		return
	}
	hits, ok := l.old.get(rel, &st)
	if !ok {
		var err error
		if hits, err = l.read(rel, data); err != nil {
			if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) &&
				!errors.Is(err, unix.ELOOP) {
				l.unseen(rel, err.Error())
			}
			return // another user's, which the payload cannot open either
		}
	}
	l.seen.put(rel, &st, hits)
	for _, h := range hits {
		if len(l.found.unseen) > 0 && l.found.entries > maxEntries {
			return
		}
		path := filepath.Join(rel, h.name)
		switch h.kind {
		case hitFolder:
			l.folder(path, data)
		case hitData:
			l.folder(path, true)
		case hitName, hitPointer:
			l.found.names = append(l.found.names, path)
		case hitSocket:
			l.found.sockets = append(l.found.sockets, path)
		case hitGit:
			if shut(filepath.Join(l.root, path)) {
				l.found.shut = append(l.found.shut, path)
				continue
			}
			l.found.gits = append(l.found.gits, path)
		case hitMatch, hitMatched:
			dir := h.kind == hitMatched
			if i := l.hide.Match(path, dir); i >= 0 {
				l.found.hide = append(l.found.hide, match{path, dir, i})
			}
			if i := l.protect.Match(path, dir); i >= 0 {
				l.found.protect = append(l.found.protect, match{path, dir, i})
			}
		}
	}
}

// read lists a folder.
func (l *search) read(rel string, data bool) ([]hit, error) {
	entries, err := resolve.ReadDir(filepath.Join(l.root, rel)) // never through a link that is there by now
	if err != nil {
		return nil, err
	}
	if l.found.entries += len(entries); l.found.entries > maxEntries {
		l.unseen(rel, "the project has more files than a start looks at")
		return nil, nil
	}
	var hits []hit
	for _, e := range entries {
		name := e.Name()
		if name != ".git" && l.everywhere() {
			path := filepath.Join(rel, name)
			if l.hide.Match(path, e.IsDir()) >= 0 || l.protect.Match(path, e.IsDir()) >= 0 {
				kind := byte(hitMatch)
				if e.IsDir() {
					kind = hitMatched
				}
				hits = append(hits, hit{kind, name})
			}
		}
		switch {
		case e.Type()&fs.ModeSocket != 0:
			hits = append(hits, hit{hitSocket, name})
		case name == ".git" && rel == "":
		case data:
			if e.IsDir() && name != ".git" {
				hits = append(hits, hit{hitData, name})
			}
		case name == ".git" && e.IsDir():
			hits = append(hits, hit{hitGit, name})
		case name == ".git":
			hits = append(hits, hit{hitPointer, name})
		case Name(name) && (rel != "" || strings.HasSuffix(strings.ToLower(name), workspaceEnd)),
			name == "workflows" && filepath.Base(rel) == ".github" && rel != ".github":
			hits = append(hits, hit{hitName, name})
		case e.IsDir() && slices.Contains(Skipped, name):
			if l.everywhere() {
				hits = append(hits, hit{hitData, name})
			}
		case e.IsDir():
			hits = append(hits, hit{hitFolder, name})
		}
	}
	return hits, nil // by name, as ReadDir has them
}

// everywhere reports whether a pattern can name something in any folder.
func (l *search) everywhere() bool { return len(l.hide)+len(l.protect) > 0 }

func (l *search) unseen(rel, why string) {
	l.found.unseen = append(l.found.unseen, Unprotected{Path: filepath.Join(l.root, rel), Why: why})
}

// shut tells of a folder that its owner may not list and enter. What is in it can be
// neither found nor covered; the payload, who may have shut it in an earlier session,
// can open it again.
func shut(dir string) bool {
	fi, err := os.Lstat(dir)
	return err == nil && fi.IsDir() && fi.Mode()&0o500 != 0o500
}

// Shut is shut, for those who look at a project after a session.
func Shut(dir string) bool { return shut(dir) }

// settled is how long a folder has to be as it is before what was read of it is kept: a
// change in the same tick of the file system's clock would not show.
const settled = 2 * time.Second
