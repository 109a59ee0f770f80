package workspace

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/protect"
)

// hideSockets covers the sockets of the host's programs that lie in what is shown.
// A read-only mount does not keep anyone from connecting to one, and whoever
// listens acts for the agent. nested finds those of the project by their kind,
// which knows also those of other network namespaces; the kernel's list knows
// those that lie deeper, and those in the system's folders.
func (v *View) hideSockets(o Options) {
	var shown []string
	if o.Root == "" {
		shown = v.systemFolders()
	}
	seen := func(path string) bool {
		return slices.ContainsFunc(v.Binds, func(b sandbox.Bind) bool { return realpath.Inside(path, string(b.Source)) }) ||
			slices.ContainsFunc(shown, func(dir string) bool { return realpath.Inside(path, dir) })
	}
	for _, path := range boundSockets(seen) {
		for _, b := range v.Binds {
			if rel, ok := below(path, string(b.Source)); ok && rel != "" && !b.File {
				v.hideSocket(filepath.Join(string(b.Target), rel))
			}
		}
		if o.Root == "" && v.bindOf(path) == nil && v.shown(path) {
			v.hideSocket(path)
		}
	}
	for _, b := range v.Binds {
		if !slices.Contains(v.exposed, string(b.Target)) || b.File {
			continue
		}
		sockets, closed := protect.Sockets(string(b.Source), o.Data)
		for _, rel := range sockets {
			v.hideSocket(filepath.Join(string(b.Target), rel))
		}
		for _, rel := range closed { // in which there may be some
			at := filepath.Join(string(b.Target), rel)
			v.pinAbove(at, &covers{list: &v.Protect})
			v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(at), Empty: true})
		}
	}
}

func (v *View) hideSocket(guest string) {
	if slices.ContainsFunc(v.Protect, func(p sandbox.Protect) bool {
		return string(p.Target) == guest || p.Empty && realpath.Inside(guest, string(p.Target))
	}) {
		return
	}
	v.pinAbove(guest, &covers{list: &v.Protect})
	v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(guest), File: true, Empty: true, Yields: true,
		Fleeting: true})
}

// boundSockets are the paths, without symbolic links, at which programs of this
// network namespace listen, of those that are wanted: a host has hundreds, nearly
// all of them elsewhere. Other systems than Linux have no list.
func boundSockets(wanted func(path string) bool) []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []string
	folders := map[string]string{} // to their real paths
	for line := range bytes.Lines(text) {
		// The path is the last field, and may hold anything but a line's end:
		// proc_net_unix(5). The others are numbers.
		at := bytes.Index(line, []byte(" /"))
		if at < 0 {
			continue
		}
		dir, name := filepath.Split(string(bytes.TrimSuffix(line[at+1:], []byte("\n"))))
		real, ok := folders[dir]
		if !ok {
			if real, err = realpath.Of(dir); err != nil {
				real = dir
			}
			folders[dir] = real
		}
		path := filepath.Join(real, name)
		if !wanted(path) || slices.Contains(out, path) {
			continue
		}
		if fi, err := os.Lstat(path); err != nil || fi.Mode()&fs.ModeSocket == 0 {
			continue // gone, or another mount namespace's
		}
		out = append(out, path)
	}
	return out
}

// hostsOwn are folders that are the kernel's and the host's programs': what lies
// there speaks for them.
var hostsOwn = []string{"/proc", "/sys", "/dev", "/run"}

// noHostsOwn refuses to show one of them. Below /run there is also what is no socket.
func noHostsOwn(path string) error {
	for _, dir := range hostsOwn {
		if path == dir || dir != "/run" && realpath.Inside(path, dir) {
			return fmt.Errorf("expose %s: it is the host's processes, devices and sockets, each of them a way out", path)
		}
	}
	return nil
}
