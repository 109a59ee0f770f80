package realpath

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
)

// links bounds the links of one path, as the kernel does.
const links = 40

// Place says what a path is to a walk.
type Place int

const (
	Roots Place = iota // the root's own: a link there is followed
	Made               // no link, whatever the root has there
	Other              // none of the root's, a mount for one: the walk ends, and the rest stays as it is
)

// In is an absolute path of a box without the symbolic links of the box's own root, which lies at root: each leads
// where it leads inside, never to what the host has by that name. Where links lead in circles, or it cannot be known
// whether a link is there, it gives no path: whoever covers or judges by paths must refuse.
func In(root, name string, place func(string) Place) (string, error) {
	done, rest, followed := "/", name, 0
	for rest != "" {
		part, more, _ := strings.Cut(rest, "/")
		rest = more
		next := path.Join(done, part) // done has no link, so that its ".." is above it
		kind := place(next)
		if kind == Other {
			whole := path.Join(next, rest)
			if Inside(whole, next) {
				return whole, nil
			}
			// It leads out again, to where the root may have links.
			if followed++; followed > links {
				return "", fmt.Errorf("follow the links of %s: they lead in circles", name)
			}
			done, rest = "/", whole
			continue
		}
		if kind == Made || part == "" || part == "." || part == ".." {
			done = next
			continue
		}
		to, err := os.Readlink(path.Join(root, next))
		if none(err) {
			done = next
			continue
		}
		if err != nil {
			return "", fmt.Errorf("follow the links of %s: %w", name, err)
		}
		if followed++; followed > links {
			return "", fmt.Errorf("follow the links of %s: they lead in circles", name)
		}
		if path.IsAbs(to) {
			done = "/"
		}
		rest = to + "/" + rest
	}
	return done, nil
}

// none reports whether an error says that no link is there: another kind of entry, or nothing.
func none(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}
