// Package watch sees what a box executes and which files it opens, on kernels that let no
// program of ours judge that: by notifications of a seccomp filter.
//
// The promise: of every call that the filter names the path is read and resolved as the
// caller sees it, before the call goes on; each path is reported once for each way to use it,
// a program once for each list of words,
// at once, and how often at the end; what found no room is counted and reported. It needs no
// root.
//
// It refuses what a pattern names, by its name, and nothing else; what it tells is advice: a program
// can change a path between the look and the call. What is kept is kept by the view and by Landlock.
// A file that is open
// already, a mapping, and what an interpreter does with a text are no calls that it sees.
//
// Most readers want [Begin] and [Filter].
package watch

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cloister/internal/pathglob"
	"cloister/internal/realpath"
	"cloister/sandbox"
)

// most bounds the different paths that are kept, and mostBytes what they and the words of
// programs are long; further ones are counted together, those that a rule forbids by the rule.
const (
	most      = 20_000
	mostBytes = 32 << 20
)

// Ask asks a person about a file; without an error it is handed in.
type Ask = func(context.Context, sandbox.FileQuestion) error

// use is one way to use a path.
type use uint8

const (
	reads use = iota
	lists     // a folder is opened
	writes
	makes // a name comes or goes: what is changed is the folder
	executes
)

func (u use) String() string { return [...]string{"open", "list", "write", "make", "execute"}[u] }

// seen is one path as it was used, and for a program the words that it was called with.
type seen struct {
	use   use
	path  string
	words string
}

// A table adds up what is seen, and says what of it a policy forbids.
type table struct {
	about sandbox.Watched
	tell  func(sandbox.FileEvent)
	known map[seen]*sandbox.FileEvent
	bytes int                      // of known
	rules map[string][]int         // of about, by their paths
	globs map[int]pathglob.Pattern // of about's rules that are patterns
	named pathglob.Set             // the same, by the indices of the rules
	lets  map[string]bool          // programs that a person has allowed
	// lost are uses that found no room, and uses whose path could not be read.
	lost, unread uint64
}

func newTable(about sandbox.Watched, tell func(sandbox.FileEvent)) *table {
	t := &table{about: about, tell: tell, known: map[seen]*sandbox.FileEvent{}, rules: map[string][]int{},
		globs: map[int]pathglob.Pattern{}, lets: map[string]bool{}}
	for i, r := range about.Rules {
		if r.Glob {
			t.globs[i], _ = patternOf(r) // Filter has refused one that is none
			t.named.Add(t.globs[i], i)
			continue
		}
		at := path.Clean(string(r.Path))
		t.rules[at] = append(t.rules[at], i)
	}
	return t
}

func patternOf(r sandbox.Judged) (pathglob.Pattern, error) {
	p, err := pathglob.Parse(string(r.Path))
	if err == nil && !p.Whole() && r.In == "" {
		err = fmt.Errorf("%q: a pattern of no folder", r.Path)
	}
	return p.In(string(r.In)), err
}

// byPattern reports whether what patterns name is refused here.
func (t *table) byPattern() bool { return t.about.Kept && len(t.globs) > 0 }

// matches reports whether a pattern names a path.
func (t *table) matches(at string) (yes bool) {
	t.named.Match(at, func(int) bool { yes = true; return true })
	return yes
}

// refuses reports whether a use is refused here: by a pattern, where the view cannot.
func (t *table) refuses(s seen, unread error) bool {
	if !t.byPattern() {
		return false
	}
	rule := t.verdict(s)
	return unread != nil || rule != nil && rule.Glob
}

// add notes one use. Of a policy's session only what is forbidden and what is executed is
// reported; where all is recorded, everything is.
func (t *table) add(s seen, who func() (program string, pid int)) {
	if e := t.known[s]; e != nil {
		e.More++
		return
	}
	rule := t.verdict(s)
	if s.use != executes && own(s.path) && (rule == nil || !own(string(rule.Path))) {
		return
	}
	if rule == nil && t.about.ByName {
		return
	}
	unlisted := rule == nil && !t.permitted(s)
	if rule == nil && s.use != executes && !t.about.All && !unlisted {
		return
	}
	if len(t.known) >= most || t.bytes >= mostBytes {
		switch {
		case unlisted:
			s = seen{use: s.use, path: "/"}
		case rule == nil:
			t.lost++
			return
		default:
			s = seen{use: s.use, path: string(rule.Path)} // as many as there are rules
		}
		if e := t.known[s]; e != nil {
			e.More++
			return
		}
	}
	e := &sandbox.FileEvent{When: time.Now(), Op: s.use.String(), Path: s.path}
	if rule != nil {
		e.Rule, e.Why, e.Let = rule.Rule, "a statement forbids it", !t.about.Kept
		if rule.Asked {
			e.Why = "a statement asks about it, and here no person is asked"
		}
	}
	if unlisted {
		e.Why, e.Let = "no statement permits it", !t.about.Kept
	}
	if s.words != "" {
		e.Argv = strings.Split(s.words, "\x00")
	}
	e.Program, e.PID = who()
	t.known[s] = e
	t.bytes += len(s.path) + 2*len(s.words) // the event has them once more
	t.tell(*e)
}

// let notes that a person has allowed a program, which can be read from then on too.
func (t *table) let(at string) { t.lets[at] = true }

// verdict is the rule that forbids a use; nil allows it.
func (t *table) verdict(s seen) *sandbox.Judged {
	if t.lets[s.path] && (s.use == executes || s.use == reads) {
		return nil
	}
	first := len(t.about.Rules)
	for dir := s.path; ; dir = path.Dir(dir) {
		for _, i := range t.rules[dir] {
			if i < first && forbids(t.about.Rules[i], s.use) {
				first = i
			}
		}
		if dir == "/" || dir == "." {
			break
		}
	}
	t.named.Match(s.path, func(i int) bool {
		if i < first && forbids(t.about.Rules[i], s.use) {
			first = i
		}
		return false
	})
	if first == len(t.about.Rules) {
		return nil
	}
	return &t.about.Rules[first]
}

func forbids(r sandbox.Judged, u use) bool {
	switch u {
	case reads, lists:
		return r.Read
	case writes, makes:
		return r.Write
	case executes:
		return r.Exec
	}
	return false
}

// permitted reports whether the lists of what alone is permitted leave a use. Landlock, which
// keeps them, lets folders be listed, and names be made only in a permitted folder.
func (t *table) permitted(s seen) bool {
	p := t.about.Permits
	if s.use == lists || own(s.path) || !p.Any() || s.use != executes && !p.Opens {
		return true
	}
	if s.use == executes && p.Opens && !t.listed(seen{use: reads, path: s.path}) {
		return false // the kernel reads what it executes
	}
	return s.use == executes && !p.Programs || t.listed(s)
}

// listed reports whether a list names a use of a path.
func (t *table) listed(s seen) bool {
	p := t.about.Permits
	return slices.ContainsFunc(p.List, func(one sandbox.Permit) bool {
		read := one.Read || one.Exec && p.Programs
		right := map[use]bool{reads: read, writes: one.Write, makes: one.Write && one.Dir, executes: one.Exec}[s.use]
		at, in := path.Clean(string(one.Path)), s.path
		if s.use == makes {
			in = path.Dir(in)
		}
		return right && (in == at || one.Dir && realpath.Inside(in, at))
	})
}

// own are files of the box itself, which no statement about a folder above them means.
func own(at string) bool {
	return slices.ContainsFunc(sandbox.Own(), func(dir sandbox.GuestPath) bool {
		return realpath.Inside(at, string(dir))
	})
}

// flush tells how often each was used since it was reported, in the order of their paths, and
// what is not in the table.
func (t *table) flush() {
	var list []*sandbox.FileEvent
	for _, e := range t.known {
		if e.More > 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *sandbox.FileEvent) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Op, b.Op))
	})
	for _, e := range list {
		e.When = time.Now()
		t.tell(*e)
	}
	clear(t.known)
	t.bytes = 0
	for _, l := range []struct {
		n   uint64
		why string
	}{{t.lost, "too many paths to be listed one by one"}, {t.unread, "their paths could not be read"}} {
		if l.n > 0 {
			t.tell(sandbox.FileEvent{When: time.Now(), Op: "several", Unseen: l.why, More: l.n})
		}
	}
	t.lost, t.unread = 0, 0
}
