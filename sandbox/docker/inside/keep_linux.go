package inside

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
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
	// Milliseconds. The event comes at once, but one in some twenty was missed
	// when a file was replaced (Linux 6.18), so the mounts are also looked at
	// unasked; a look costs 0.1 ms.
	const idle = 250
	// What is being replaced is back in a moment; what stays away is looked for at
	// the cost of half a hundredth of a processor.
	const soon, late = 2, 32
	wait, absent := 0, soon // the first look is at what changed before the watch began
	for {
		// mountinfo is in error when it has changed (proc(5)).
		ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		changed, err := unix.Poll(ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		whole, err := v.mend(f)
		if err != nil {
			return err
		}
		if changed > 0 {
			absent = soon
		}
		wait = idle
		if !whole {
			wait, absent = absent, min(2*absent, late)
		}
	}
}

// mend covers what has lost its mount. It is not whole as long as one of the
// paths is absent or just being replaced: the kernel takes the mount away in the
// midst of a rename, when the new file cannot be mounted on yet.
func (v *viewer) mend(mountinfo *os.File) (whole bool, err error) {
	list, err := readMounts(mountinfo)
	if err != nil {
		return false, fmt.Errorf("read mounts: %w", err)
	}
	mounted := map[string]bool{}
	for _, m := range list {
		mounted[m.at] = true
	}
	whole = true
	for _, t := range v.Protect {
		if mounted[v.listed(string(t.Target))] {
			continue
		}
		whole = false
		fd, err := v.openBelow(string(t.Target))
		if err != nil {
			continue // absent, or being replaced
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil {
			continue
		}
		kind := st.Mode & unix.S_IFMT
		folder := kind == unix.S_IFDIR
		if t.Yields && (t.File == folder || !folder && kind != unix.S_IFSOCK) {
			t.Empty = false // somebody's own by now: it is held as it is
		}
		if folder {
			t.Instead = ""
		}
		t.File = !folder
		if err := v.cover(t); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return false, fmt.Errorf("cover %s again: %w", t.Target, err)
		}
	}
	return whole, nil
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
