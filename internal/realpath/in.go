package realpath

import (
	"os"
	"path"
	"strings"
)

// links bounds the links of one path, as the kernel does.
const links = 40

// In is an absolute path of a box without the symbolic links of the box's own root, which lies at root: each leads
// where it leads inside, never to what the host has by that name. It stops at a path that other says is not the
// root's, a mount for one, and leaves the rest as it is.
func In(root, name string, other func(string) bool) string {
	done, rest, followed := "/", name, 0
	for rest != "" {
		part, more, _ := strings.Cut(rest, "/")
		rest = more
		next := path.Join(done, part) // done has no link, so that its ".." is above it
		if other(next) {
			return path.Join(next, rest)
		}
		to, err := os.Readlink(path.Join(root, next))
		if err != nil || part == "" || part == "." || part == ".." {
			done = next
			continue
		}
		if followed++; followed > links {
			return name
		}
		if path.IsAbs(to) {
			done = "/"
		}
		rest = to + "/" + rest
	}
	return done
}
