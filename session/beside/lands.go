package beside

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/services"
)

// A NotThere says why something is not laid where a compose file wants it.
type NotThere struct{ Target, Lands, Why string }

func (e *NotThere) Error() string {
	if e.Lands == e.Target {
		return e.Why
	}
	return "in its image this leads to " + e.Lands + ": " + e.Why
}

// own are the places of every cloister. An engine follows the links of an image where it lays
// a mount, so that one at a/.cloister, with a link from a to /, would put a volume over the
// program that encloses the service.
var own = []string{"/proc", "/sys", "/dev", "/.cloister", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
	"/etc/nsswitch.conf", "/etc/host.conf", "/etc/passwd", "/etc/group", "/etc/ssl", "/etc/gitconfig", "/home/agent"}

// lands gives a member's mounts the places that their targets lead to in its image. It refuses
// those that are a cloister's own, those over the kept (its home, and of the agent its
// project), and those within another mount: what writes there could put a link in the way.
func (m *member) lands(list []services.Mount, kept ...string) ([]services.Mount, error) {
	out := slices.Clone(list)
	for i := range out {
		to, err := resolved(string(m.Root.Dir), out[i].Target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].Target, err)
		}
		out[i].Target = to
	}
	for i, mount := range out {
		bad := func(why string) error {
			return fmt.Errorf("%s: %w", list[i].Target, &NotThere{list[i].Target, mount.Target, why})
		}
		taken := slices.Concat(own, kept)
		if mount.Kind == services.OfProject && len(kept) > 1 {
			taken = slices.Concat(own, kept[:1]) // of the agent's: a link to the project, or its own place
		}
		if at := slices.IndexFunc(taken, func(o string) bool {
			return within(mount.Target, o) || within(o, mount.Target)
		}); at >= 0 {
			return nil, bad(taken[at] + " is the cloister's own")
		}
		for n, o := range out {
			if n != i && o.Kind != services.OfTmpfs && within(mount.Target, o.Target) {
				return nil, bad("it is within the mount at " + o.Target + ", whose content could lead it elsewhere")
			}
		}
	}
	return out, nil
}

func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// mostLinks bounds the links on the way to a target, as the kernel does (path_resolution(7)).
const mostLinks = 40

// resolved is where a target leads in an image, whose root is never left.
func resolved(image, target string) (string, error) {
	if image == "" {
		return "", errors.New("its image lies nowhere")
	}
	root, err := os.OpenRoot(image)
	if err != nil {
		return "", err
	}
	defer root.Close()
	at, rest := "/", strings.Split(strings.Trim(path.Clean("/"+target), "/"), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := path.Join(at, name)
		file := cmp.Or(strings.TrimPrefix(next, "/"), ".")
		info, err := root.Lstat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at = next
			continue
		case err != nil:
			return "", err
		case info.Mode().Type() != fs.ModeSymlink:
			at = next
			continue
		}
		if links++; links > mostLinks {
			return "", errors.New("too many links are on its way")
		}
		link, err := root.Readlink(file)
		if err != nil {
			return "", err
		}
		if path.IsAbs(link) {
			at = "/"
		}
		more := slices.DeleteFunc(strings.Split(link, "/"), func(s string) bool { return s == "" || s == "." })
		rest = slices.Concat(more, rest)
	}
	return at, nil
}
