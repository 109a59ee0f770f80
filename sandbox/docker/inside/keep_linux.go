package inside

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/remount"
)

// keep watches over the protected paths. The kernel takes a mount away when the
// file under it is removed or replaced from outside, as an editor or git on the
// host does; the path is covered again at once. It returns when that fails.
func (v *viewer) keep() error {
	f, err := v.mountinfo()
	if err != nil {
		return err
	}
	defer f.Close()
	return remount.Watch(f, nil, v.mend)
}

// mend covers what has lost its mount.
func (v *viewer) mend(mounted map[string]bool) (whole bool, err error) {
	there := func(at sandbox.GuestPath) bool { return mounted[v.listed(string(at))] }
	missing, whole := remount.Missing(v.Protect, there, v.look)
	for _, t := range missing {
		if err := v.cover(t); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return false, fmt.Errorf("cover %s again: %w", t.Target, err)
		}
	}
	return whole, nil
}

// look gives the kind of file at a protected path.
func (v *viewer) look(t sandbox.Protect) (kind uint32, ok bool) {
	fd, err := v.openBelow(string(t.Target))
	if err != nil {
		return 0, false // absent, or being replaced
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Mode & unix.S_IFMT, err == nil
}

// listed is a path as the list of mounts has it: where the image's links lead.
func (v *viewer) listed(name string) string {
	base := ""
	for _, b := range v.Binds {
		if (b.Target == name || strings.HasPrefix(name, b.Target+"/")) && len(b.Target) > len(base) {
			base = b.Target
		}
	}
	if base == "" {
		return name
	}
	return v.real[base] + strings.TrimPrefix(name, base)
}
