package workspace

import (
	"time"

	"cloister/host/resolve"
)

// seen is what the look before a session knows of the folders of a project, so that the look
// after it need not list those again in which no name came or went.
//
// A folder's change time tells that: no program sets it, and each name that comes, goes or
// becomes another file gives it a new one. It is compared for being equal, not for being
// older, so that a clock that was set back hides nothing. What is in a file changes without
// its folder: each file that matters is looked at by itself, and so is each folder below.
//
// Nothing is kept of a folder whose time is near that of the look (a change within the same
// tick of the file system's clock would not show), of one on another file system than the
// top, or of any on a file system whose times are another's (resolve.KeepsTimes).
type seen struct {
	dev     uint64
	before  time.Time // folders that changed later are not kept
	folders map[string]seenFolder
}

type seenFolder struct {
	self    resolve.Stat
	inBare  bool
	entries []resolve.Entry // those that can matter, as they were listed
}

// settled is how long a folder has to be as it is: twice the coarsest tick, a second.
const settled = 2 * time.Second

// newSeen is nil where a file system does not tell.
func newSeen(root string) *seen {
	if !resolve.KeepsTimes(root) {
		return nil
	}
	return &seen{before: time.Now().Add(-settled), folders: map[string]seenFolder{}}
}

// see keeps what was listed of a folder.
func (w *walk) see(
	rel string, self resolve.Stat, entries []resolve.Entry, inBare bool, matters func(*resolve.Entry) bool,
) {
	s := w.seeing
	if s == nil {
		return
	}
	if rel == "" {
		s.dev = self.Dev
	}
	if self.Dev != s.dev || !self.Changed().Before(s.before) {
		return
	}
	n := 0
	for i := range entries {
		if matters(&entries[i]) {
			n++
		}
	}
	f := seenFolder{self: self, inBare: inBare, entries: make([]resolve.Entry, 0, n)}
	for i := range entries {
		if matters(&entries[i]) {
			f.entries = append(f.entries, entries[i])
		}
	}
	s.folders[rel] = f
}

// matters reports whether a look after a session can ask for an entry of a folder that lies in
// the same place by then and has the same names, and so is no other kind of folder. inBare is
// the one thing that changes from above.
func (h spot) matters(e *resolve.Entry) bool {
	return e.IsDir() || h.git || h.of || h.trail.obeyed(e.Name())
}

// fewLooks is how many looks by path cost as much as opening their folder for them.
const fewLooks = 3

// list lists a folder, or gives what was listed of it before, where it is as it was in the
// same place.
func (w *walk) list(rel, full string, at *resolve.Stat, inBare bool) (resolve.Stat, []resolve.Entry, error) {
	if w.seen == nil || at == nil {
		return resolve.List(full, w.wanted)
	}
	f, ok := w.seen.folders[rel]
	if !ok || !f.self.Same(*at) || f.inBare != inBare {
		return resolve.List(full, w.wanted)
	}
	looks := 0
	for i := range f.entries {
		f.entries[i].Forget()
		if w.wanted(&f.entries[i]) {
			looks++
		}
	}
	if looks > fewLooks {
		if err := resolve.Look(full, f.entries, w.wanted); err != nil {
			return resolve.List(full, w.wanted)
		}
	}
	return *at, f.entries, nil
}

// stat is what a folder's look said of an entry; nil where it was not looked at.
func (w *walk) stat(e *resolve.Entry) *resolve.Stat {
	if w.seen == nil {
		return nil
	}
	st, err := e.Stat()
	if err != nil {
		return nil
	}
	return &st
}
