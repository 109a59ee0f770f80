package remount

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Mount is one line of mountinfo (proc(5)).
type Mount struct {
	ID, Parent int
	Device     uint64 // as stat(2) has it
	At         string
}

// usual is more than the table of a cloister takes, in bytes.
const usual = 24 << 10

// Read reads an open mountinfo from its beginning.
func Read(mountinfo *os.File) ([]Mount, error) {
	if _, err := mountinfo.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	text := bytes.NewBuffer(make([]byte, 0, usual)) // the kernel writes the table anew for each read
	if _, err := text.ReadFrom(mountinfo); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var out []Mount
	for row := range strings.Lines(text.String()) {
		fields := strings.Fields(row)
		if len(fields) < 5 {
			continue
		}
		id, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		major, minor, _ := strings.Cut(fields[2], ":")
		high, err3 := strconv.ParseUint(major, 10, 32)
		low, err4 := strconv.ParseUint(minor, 10, 32)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, fmt.Errorf("read mounts: %w", err)
		}
		out = append(out, Mount{id, parent, unix.Mkdev(uint32(high), uint32(low)), unescape.Replace(fields[4])})
	}
	return out, nil
}

// unescape undoes how mountinfo writes what would end a field.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Milliseconds between looks. The event comes at once, but one in some twenty was
// missed when a file was replaced (Linux 6.18), so the mounts are also looked at
// unasked; a look costs 0.1 ms. What is being replaced is back in a moment. What
// stays away, as a folder of the project that someone took away on the host does,
// is looked for at the cost of half a hundredth of a processor.
const (
	idle = 250
	soon = 2
	late = 32
)

// Watch calls mend at once and whenever the mounts have changed, with the places
// that something is mounted on, until over is at its end or mend fails. As long as
// mend answers that not all is whole, it is called again soon. A nil over never ends.
func Watch(mountinfo, over *os.File, mend func(mounted map[string]bool) (whole bool, err error)) error {
	// mountinfo is in error when it has changed (proc(5)).
	ready := []unix.PollFd{{Fd: int32(mountinfo.Fd()), Events: unix.POLLPRI}, {Fd: -1}}
	if over != nil {
		ready[1].Fd = int32(over.Fd())
	}
	wait, absent := 0, soon // the first look is at what changed before the watch began
	for {
		changed, err := unix.Poll(ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch mounts: %w", err)
		}
		if err == nil && ready[1].Revents != 0 {
			return nil
		}
		list, err := Read(mountinfo)
		if err != nil {
			return err
		}
		mounted := make(map[string]bool, len(list))
		for _, m := range list {
			mounted[m.At] = true
		}
		whole, err := mend(mounted)
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

// Missing are the protected paths that are to be covered again. Not all is whole as
// long as one lacks its mount, whether it can be covered or not: the kernel takes the
// mount away in the midst of a rename, when the new file cannot be mounted on yet.
// mounted reports whether something is mounted on a path, and look what kind of file
// (S_IFMT) is there, or that none is.
func Missing(
	list []sandbox.Protect, mounted func(sandbox.GuestPath) bool, look func(sandbox.Protect) (kind uint32, ok bool),
) (missing []sandbox.Protect, whole bool) {
	whole = true
	for _, t := range list {
		if mounted(t.Target) {
			continue
		}
		whole = false
		if kind, ok := look(t); ok {
			missing = append(missing, found(t, kind))
		}
	}
	return missing, whole
}

// found is how a protected path is covered that holds a file of this kind by now.
func found(t sandbox.Protect, kind uint32) sandbox.Protect {
	folder := kind == unix.S_IFDIR
	if t.Yields && (t.File == folder || !folder && kind != unix.S_IFSOCK) {
		t.Empty = false // another program's by now: it is held as it is
	}
	if folder {
		t.Instead = ""
	}
	t.File = !folder
	return t
}
