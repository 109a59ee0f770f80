package plan

import (
	"path"
	"slices"
	"strings"

	"cloister/sandbox"
)

// DefaultPids stops a fork bomb and no build that we know of.
const DefaultPids = 4096

// Pids is how many processes and threads a box may have.
func Pids(l sandbox.Limits) int64 {
	if l.Pids > 0 {
		return l.Pids
	}
	return DefaultPids
}

// Limits are those of each process in every box.
func Limits() []Limit {
	return []Limit{
		{"core", 0, 0},
		{"memlock", 64 << 10, 64 << 10},
		{"rtprio", 0, 0},
		{"msgqueue", 819200, 819200},
	}
}

// Walls is what the process that becomes the command puts around itself, or its parent for it.
// What of it an engine does for a box is left out: it counts processes, and has dropped the
// capabilities that Drop gives up.
func (p *Plan) Walls(s sandbox.Spec) []Step {
	p.limits(s)
	if p.Hosted != nil {
		p.add(Keep{})
		return p.take()
	}
	p.add(Drop{}, p.landlock(s))
	if p.Watched {
		p.add(Watch{}) // before the table of calls, which refuses listeners
	}
	if s.Permits.Programs {
		p.add(Fileless{})
	}
	p.add(Calls{})
	return p.take()
}

func (p *Plan) limits(s sandbox.Spec) {
	for _, l := range Limits() {
		p.add(l)
	}
	if p.Base == OnEngine {
		return
	}
	// The number of processes is counted in the cloister's own user namespace (Linux 5.14), so
	// it bounds this cloister alone.
	pids := uint64(Pids(s.Limits))
	if p.Hosted != nil {
		// The hosted kernel counts its command's processes itself; here its own are
		// counted, some threads for each of them.
		pids = 4*pids + 1024
	}
	// Signals that wait, timers among them, are counted for all that a person owns:
	// each cloister may take at most half, so that two may take all.
	signals := uint64(1 << 14)
	if p.Pending > 0 {
		signals = min(signals, p.Pending/2)
	}
	p.add(Limit{"nproc", pids, pids}, Limit{"sigpending", signals, signals})
}

// landlock lists the places that the payload may write. In a container the mounts say so, since
// its root has folders of an image's that another user may own.
func (p *Plan) landlock(s sandbox.Spec) Landlock {
	switch {
	case p.Base == OnEngine:
		return Landlock{Writable: []string{"/"}}
	case s.InKernel:
		// Its judge keeps the lists, and tells: Landlock would refuse before it is asked.
		return Landlock{Writable: Writable(s)}
	}
	return Landlock{Writable: Writable(s), Permits: s.Permits}
}

// Writable are the places that the payload may write.
func Writable(s sandbox.Spec) []string {
	out := []string{"/tmp"}
	for _, b := range s.Binds {
		if b.Access == sandbox.ReadWrite {
			out = append(out, string(b.Target))
		}
	}
	return out
}

// Probes is what the process that becomes the command must find of a Spec's view.
func Probes(s sandbox.Spec) []Step {
	out := make([]Step, 0, len(s.Denied)+len(s.Protect)+1)
	for _, at := range s.Denied {
		out = append(out, Absent{at})
	}
	for _, t := range s.Protect {
		if !t.Pin {
			out = append(out, Held{string(t.Target), t.Fleeting})
		}
	}
	for _, b := range s.Binds {
		if b.Overlay {
			out = append(out, Overlaid{string(b.Target)})
		}
	}
	return out
}

// Candidates are the files that a command's name may mean inside, by the PATH of its environment.
func Candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				if dir == "" {
					dir = "."
				}
				out = append(out, dir+"/"+name)
			}
		}
	}
	return out
}

// ShowsBelow reports whether something is to be seen in a folder that would be hidden
// behind another file system there.
func ShowsBelow(s sandbox.Spec, dir string) bool {
	below := func(at sandbox.GuestPath) bool { return strings.HasPrefix(path.Clean(string(at))+"/", dir+"/") }
	return slices.ContainsFunc(s.Binds, func(b sandbox.Bind) bool { return below(b.Target) }) ||
		slices.ContainsFunc(s.Files, func(f sandbox.File) bool { return below(f.Path) }) ||
		slices.ContainsFunc(s.Links, func(l sandbox.Link) bool { return below(l.Path) })
}
