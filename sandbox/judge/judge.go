// Package judge has the kernel judge what a box does with files and programs, beside what
// its view shows.
//
// Load prepares the kernel, and Kernel.Begin makes the control group of a box a session of
// kernel/lsm, with what a Spec says is judged. It promises that it returns only when the kernel
// was seen to refuse, that what is refused and executed is reported, aggregated, with nothing
// lost uncounted, and that a box whose judge went away is ended.
//
// It builds no enclosure and reads no policy; what the view keeps, it keeps besides.
//
// Most readers want [Load] and [Available].
package judge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cloister/internal/realpath"
	"cloister/kernel/lsm"
	"cloister/sandbox"
)

const (
	// every is how often what was reported already is reported again, with how often it was
	// since.
	every = time.Second
	// kinds bounds the different events of one interval; further ones are counted together.
	kinds = 200
)

// libraries are where programs find code to map. A list of programs leaves mapping there; the view
// lets nothing be written in them.
var libraries = []string{"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib"}

// Nowhere stands in a Spec's Root.Dir where the files of the box's root have no path on the host.
const Nowhere = "-"

// Guarantee is what doctor says of a judge, by why it is not there.
func Guarantee(missing error) sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "files and programs by object", By: "BPF LSM; elsewhere the view alone"}
	if missing == nil {
		g.Level, g.Evidence = sandbox.Enforced, "a program was attached to a security hook, and is gone"
		return g
	}
	g.Evidence = missing.Error()
	if u, ok := errors.AsType[*sandbox.Unsupported](missing); ok {
		g.Evidence, g.Fix = u.Reason, u.Fix
	}
	return g
}

// policyOf is what a Spec says is judged as rules, and the names of these by their paths.
func policyOf(s sandbox.Spec) (lsm.Policy, map[string]string, error) {
	p := lsm.Policy{Permit: lsm.All, Guarded: true}
	names := map[string]string{}
	judged, permits := s.Judged, s.Permits
	// What is to be kept is never let pass, whatever is to be reported beside it.
	if s.Watched.Any() && !s.Watched.Kept && len(judged) == 0 && !permits.Any() {
		judged, permits, p.Mode = s.Watched.Rules, s.Watched.Permits, lsm.Shadow
		if s.Watched.All {
			p.Mode = lsm.Record
		}
	}
	for _, j := range judged {
		if j.Glob {
			continue // what it names is there beside it
		}
		r := lsm.Rule{Path: path.Clean(string(j.Path)), Forbid: rights(j.Read, j.Write, j.Exec)}
		r.Own = j.Covered && p.Mode == lsm.Enforce // in the other modes nothing is covered
		if r.Own {
			var err error
			if r.Path, err = below(s, r.Path); err != nil {
				return p, nil, fmt.Errorf("judge files: the rule %s: %w", j.Rule, err)
			}
			if r.Path == "" {
				continue // the host has no such thing, and the view keeps it
			}
		}
		names[r.Path] = j.Rule
		p.Rules = append(p.Rules, r)
	}
	list(&p, permits)
	return p, names, nil
}

// rights are those of the kernel that a statement means.
func rights(read, write, exec bool) (r lsm.Rights) {
	if read {
		r |= lsm.Read | lsm.List
	}
	if write {
		r |= lsm.Write
	}
	if exec {
		r |= lsm.Exec | lsm.Code
	}
	return r
}

// list permits nothing of what the lists speak but what they name and the box's own. Folders are
// listed as ever: names are what Landlock, which keeps the same lists, shows too.
func list(p *lsm.Policy, permits sandbox.Permits) {
	if !permits.Any() {
		return
	}
	var open lsm.Rights
	if permits.Opens {
		open = lsm.Read | lsm.Write
	}
	p.Permit &^= open
	if permits.Programs {
		p.Permit &^= lsm.Exec | lsm.Code
		for _, at := range libraries {
			// Those to which a system's links lead are in the list themselves; a devcontainer's volume is a link too.
			p.Rules = append(p.Rules, lsm.Rule{Path: at, Permit: lsm.Code, Maybe: true, Straight: true})
		}
	}
	for _, at := range sandbox.Own() {
		p.Rules = append(p.Rules, lsm.Rule{Path: string(at), Permit: open, Maybe: true})
	}
	p.Rules = append(p.Rules, lsm.Rule{Path: "/.cloister", Permit: lsm.Exec | lsm.Code, Maybe: true}) // its own programs
	for _, one := range permits.List {
		read := one.Read || one.Exec && permits.Programs // the kernel reads what it executes
		p.Rules = append(p.Rules, lsm.Rule{
			Path: path.Clean(string(one.Path)), Permit: rights(read, one.Write, one.Exec), Maybe: true,
			File: !one.Dir, Straight: !sandbox.Led(one.Path),
		})
	}
}

// use is how a file was used, in the recorder's words.
func use(e lsm.Event) string {
	was := func(ops ...lsm.Op) bool { return slices.Contains(ops, e.Op) }
	switch opened := was(lsm.Opened, lsm.Received); {
	case opened && e.Need&lsm.Write != 0, was(lsm.Changed, lsm.Connected):
		return "write"
	case opened && e.Folder:
		return "list"
	case opened:
		return "open"
	case was(lsm.Created, lsm.Removed, lsm.Linked, lsm.Renamed):
		return "make"
	}
	return e.Op.String()
}

// learned reports whether a policy could be made of what was permitted: of a path that the
// box shows, of a file that is not its own.
func learned(e lsm.Event) bool {
	if e.Unseen || !path.IsAbs(e.Path) {
		return false
	}
	for _, own := range sandbox.Own() {
		if realpath.Inside(e.Path, string(own)) {
			return false
		}
	}
	inside := func(dir string) bool { return realpath.Inside(e.Path, dir) }
	return e.Op != lsm.Mapped || !slices.ContainsFunc(libraries, inside)
}

// below is the path of the host whose object lies at a path inside; "" where it is the
// box's own.
func below(s sandbox.Spec, name string) (string, error) {
	bind := func(at string) int {
		best := -1
		for i, b := range s.Binds {
			if realpath.Inside(at, string(b.Target)) && (best < 0 || len(b.Target) >= len(s.Binds[best].Target)) {
				best = i
			}
		}
		return best
	}
	rooted := s.Root.Dir != "" && s.Root.Dir != Nowhere
	if rooted { // its links lead to files of its own, not to the host's
		var err error
		name, err = realpath.In(string(s.Root.Dir), name, func(at string) realpath.Place {
			if bind(at) >= 0 {
				return realpath.Other
			}
			return realpath.Roots
		})
		if err != nil {
			return "", err
		}
	}
	best := bind(name)
	switch {
	case s.Root.Dir == Nowhere && best < 0:
		return "", nil
	case best >= 0:
		b := s.Binds[best]
		return path.Join(string(b.Source), strings.TrimPrefix(name, string(b.Target))), nil
	case rooted:
		return path.Join(string(s.Root.Dir), name), nil
	case realpath.Inside(name, "/tmp") || realpath.Inside(name, "/dev") || realpath.Inside(name, "/proc"):
		return "", nil
	}
	return name, nil
}

// ruleOf is the name of the rule of a path, or of the nearest folder above it: what is
// mounted in a folder is judged by the folder's rule.
func ruleOf(names map[string]string, at string) string {
	for at != "" && at != "/" && at != "." {
		if name := names[at]; name != "" {
			return name
		}
		at = path.Dir(at)
	}
	return names[at]
}

// A teller tells events: the first of a kind at once, the others with the next of it after
// a while, as a number.
type teller struct {
	tell func(sandbox.FileEvent)
	seen map[key]*sandbox.FileEvent
	more uint64 // of kinds that had no room
}

type key struct{ op, path, why, words string }

func newTeller(tell func(sandbox.FileEvent)) *teller {
	return &teller{tell: tell, seen: map[key]*sandbox.FileEvent{}}
}

func (t *teller) add(e sandbox.FileEvent) {
	k := key{e.Op, e.Path, e.Why, strings.Join(e.Argv, "\x00")}
	if known := t.seen[k]; known != nil {
		known.More++
		return
	}
	if len(t.seen) >= kinds {
		t.more++
		return
	}
	t.seen[k] = &e
	t.tell(e)
}

// flush tells what was only counted; dropped are events that the kernel had no room for.
func (t *teller) flush(dropped uint64) {
	for _, e := range t.seen {
		if e.More > 0 {
			t.tell(*e)
		}
	}
	clear(t.seen)
	if t.more += dropped; t.more > 0 {
		t.tell(sandbox.FileEvent{When: time.Now(), Op: "several", Why: "too many to be reported one by one", More: t.more})
	}
	t.more = 0
}
