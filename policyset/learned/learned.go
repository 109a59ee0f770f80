// Package learned makes a policy of files and programs of what sessions were recorded to use.
//
// The promise: with the statements added, all that was recorded is permitted, and what they
// permit besides is said by them: a folder in which names came and went, since no rule can be
// about a name that is not there yet, and a folder of which more files were used than are
// listed one by one. What the policy already permits is left out.
//
// It writes no file, and knows nothing of what was meant; what the record only counted is
// said, and permitted by nothing.
//
// Most readers want [Used].
package learned

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/audit"
	"cloister/internal/realpath"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/sandbox"
)

// Of one folder so many files are listed one by one; of system folders fewer, which are the
// same on every machine and have nothing of a person's.
const (
	mostFiles  = 200
	mostSystem = 8
)

// systems are those folders.
func systems() []string {
	return []string{"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt"}
}

// Used is what was used. Its zero value is nothing.
type Used struct {
	paths map[string]*rights
	// Unseen is how many uses were counted and not recorded one by one, or cannot be named.
	Unseen uint64
}

type rights struct {
	read, write, makes, exec bool
	count                    int
}

// Add notes an event of the record, if it is about files or programs that were let be used.
func (u *Used) Add(e audit.Line) {
	if e.Kind != audit.Exec && e.Kind != audit.FileOpen || e.Verdict != policy.Allow.String() {
		return
	}
	if e.Action == "several" {
		u.Unseen += e.Suppressed
		return
	}
	at := path.Clean(e.Resource)
	if e.Action == "make" {
		at = path.Dir(path.Clean(e.Resource + "x")) // the folder whose name it is
	}
	// A statement about / is no list any more, and the recorder says / where it had no more room.
	if !nameable(at) || at == "/" && e.Action != "list" {
		u.Unseen += 1 + e.Suppressed
		return
	}
	if slices.ContainsFunc(sandbox.Own(), func(p sandbox.GuestPath) bool {
		return realpath.Inside(at, string(p))
	}) {
		return
	}
	if u.paths == nil {
		u.paths = map[string]*rights{}
	}
	r := u.paths[at]
	if r == nil {
		r = &rights{}
		u.paths[at] = r
	}
	r.count += 1 + int(min(e.Suppressed, 1<<30))
	switch e.Action {
	case "open":
		r.read = true
	case "write":
		r.write = true
	case "make":
		r.makes = true
	case "execute", "map":
		r.exec = true
	}
}

// nameable reports whether a statement can name a path and no other.
func nameable(at string) bool {
	return path.IsAbs(at) && utf8.ValidString(at) && !strings.ContainsAny(at, "*?\x00\ufffd")
}

// Any reports whether something was noted.
func (u *Used) Any() bool { return len(u.paths) > 0 }

// Entry is one path to permit, with how many files of it were used.
type Entry struct {
	Path  string `json:"path"`
	Dir   bool   `json:"dir,omitempty"`
	Files int    `json:"files"`
}

// Policy is what to permit. A list that is empty asks for nothing.
type Policy struct {
	Read     []Entry `json:"read"`
	Write    []Entry `json:"write"`
	Programs []Entry `json:"programs"`
}

// Any reports whether there is anything to permit.
func (p Policy) Any() bool { return len(p.Read)+len(p.Write)+len(p.Programs) > 0 }

// Policy is the smallest that permits what was used and in does not permit.
func (u *Used) Policy(in []policy.Statement) Policy {
	reads, writes, programs := map[string]int{}, map[string]int{}, map[string]int{}
	made := map[string]int{}
	for at, r := range u.paths {
		if r.makes && !permits(in, at, policy.PermittedPath{Dir: true, Write: true}) {
			made[at] = r.count
		}
	}
	dirs := outermost(shards(made))
	for at, r := range u.paths {
		in := func(right policy.PermittedPath) bool { return permits(in, at, right) }
		dir := above(dirs, at)
		switch {
		case dir >= 0 && (r.read || r.write):
			dirs[dir].Files++
		case r.write && !in(policy.PermittedPath{Write: true}):
			writes[at] = r.count
		case r.read && !in(policy.PermittedPath{Read: true}):
			reads[at] = r.count
		}
		if r.exec && !in(policy.PermittedPath{Exec: true}) {
			if dir >= 0 {
				at = dirs[dir].Path // the next one has another name
			}
			programs[at]++
		}
	}
	p := Policy{Read: grouped(reads), Write: append(dirs, grouped(writes)...), Programs: []Entry{}}
	for _, at := range slices.Sorted(maps.Keys(programs)) {
		p.Programs = append(p.Programs, Entry{Path: at, Dir: above(dirs, at) >= 0, Files: programs[at]})
	}
	return p
}

// permits reports whether statements permit a use of a path already.
func permits(in []policy.Statement, at string, want policy.PermittedPath) bool {
	for _, st := range in {
		for _, p := range st.Permitted {
			inside := p.Path == at && (p.Dir || !want.Dir) || p.Dir && realpath.Inside(at, p.Path) || fileverdict.Names(p, at)
			if inside && (p.Read || !want.Read) && (p.Write || !want.Write) && (p.Exec || !want.Exec) {
				return true
			}
		}
	}
	return false
}

// shards puts a folder in the place of several in it that are named by a few hexadecimal
// digits, as caches by content have them: the next content is in another.
func shards(dirs map[string]int) map[string]int {
	several := map[string]int{}
	for at := range dirs {
		if isShard(path.Base(at)) {
			several[path.Dir(at)]++
		}
	}
	out := map[string]int{}
	for at, n := range dirs {
		if above := path.Dir(at); isShard(path.Base(at)) && several[above] > 1 && above != "/" {
			at = above
		}
		out[at] += n
	}
	return out
}

func isShard(name string) bool {
	return len(name) <= 3 && strings.Trim(name, "0123456789abcdef") == ""
}

// outermost are those folders that lie in no other.
func outermost(dirs map[string]int) []Entry {
	out := []Entry{}
	for _, at := range slices.Sorted(maps.Keys(dirs)) {
		if above(out, at) < 0 {
			out = append(out, Entry{Path: at, Dir: true})
		}
		out[above(out, at)].Files += dirs[at]
	}
	return out
}

// above is which of some folders a path lies in, or is; -1 for none.
func above(dirs []Entry, at string) int {
	return slices.IndexFunc(dirs, func(e Entry) bool { return realpath.Inside(at, e.Path) })
}

// A folder is one with what of it was used.
type folder struct {
	at      string
	used    int // the number of files
	files   []string
	folders map[string]*folder
}

// grouped lists files, and the folders of which more than enough were used.
func grouped(files map[string]int) []Entry {
	root := &folder{at: "/", folders: map[string]*folder{}}
	for _, at := range slices.Sorted(maps.Keys(files)) {
		f := root
		f.used++
		for _, dir := range parents(at) {
			next := f.folders[dir]
			if next == nil {
				next = &folder{at: dir, folders: map[string]*folder{}}
				f.folders[dir] = next
			}
			f = next
			f.used++
		}
		f.files = append(f.files, at)
	}
	out := root.entries()
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// parents are the folders above a path but /, from the top.
func parents(at string) []string {
	var out []string
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// entries are those of a folder: the folder itself where there would be too many.
func (f *folder) entries() []Entry {
	out := make([]Entry, 0, len(f.files))
	for _, at := range f.files {
		out = append(out, Entry{Path: at, Files: 1})
	}
	for _, at := range slices.Sorted(maps.Keys(f.folders)) {
		out = append(out, f.folders[at].entries()...)
	}
	most := mostFiles
	if slices.ContainsFunc(systems(), func(dir string) bool { return realpath.Inside(f.at, dir) }) {
		most = mostSystem
	}
	// Not a folder at the top, nor a person's own: those are no smaller than nothing said.
	if len(out) > most && (most == mostSystem || len(parents(f.at)) > 1) {
		return []Entry{{Path: f.at, Dir: true, Files: f.used}}
	}
	return out
}
