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
	"path"
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

// policyOf is a Spec's Judged as rules, and the names of these by their paths.
func policyOf(s sandbox.Spec) (lsm.Policy, map[string]string) {
	p := lsm.Policy{Permit: lsm.All}
	names := map[string]string{}
	for _, j := range s.Judged {
		r := lsm.Rule{Path: path.Clean(string(j.Path)), Own: j.Covered}
		for right, forbidden := range map[lsm.Rights]bool{lsm.Read: j.Read, lsm.Write: j.Write, lsm.Exec: j.Exec} {
			if forbidden {
				r.Forbid |= right
			}
		}
		if j.Covered {
			if r.Path = below(s, r.Path); r.Path == "" {
				continue // the host has no such thing, and the view keeps it
			}
		}
		names[r.Path] = j.Rule
		p.Rules = append(p.Rules, r)
	}
	return p, names
}

// below is the path of the host whose object lies at a path inside; "" where it is the
// box's own.
func below(s sandbox.Spec, name string) string {
	best := -1
	for i, b := range s.Binds {
		if realpath.Inside(name, string(b.Target)) && (best < 0 || len(b.Target) >= len(s.Binds[best].Target)) {
			best = i
		}
	}
	switch {
	case best >= 0:
		b := s.Binds[best]
		return path.Join(string(b.Source), strings.TrimPrefix(name, string(b.Target)))
	case s.Root.Dir != "":
		return path.Join(string(s.Root.Dir), name)
	case realpath.Inside(name, "/tmp") || realpath.Inside(name, "/dev") || realpath.Inside(name, "/proc"):
		return ""
	}
	return name
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

type key struct{ op, path, why string }

func newTeller(tell func(sandbox.FileEvent)) *teller {
	return &teller{tell: tell, seen: map[key]*sandbox.FileEvent{}}
}

func (t *teller) add(e sandbox.FileEvent) {
	k := key{e.Op, e.Path, e.Why}
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
