package sandboxtest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// files: what is made inside is on the host as its owner would have made it, and
// what the host made looks so inside.
func files(t *testing.T, h *Harness) {
	h.Write(t, "old/there", "from the host")
	if err := os.Chmod(filepath.Join(h.Project, "old/there"), 0o640); err != nil {
		t.Fatal(err)
	}
	past := time.Date(2001, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	if err := os.Chtimes(filepath.Join(h.Project, "old/there"), past, past); err != nil {
		t.Fatal(err)
	}
	size := int64(5 << 30)
	if h.copies {
		size = 3<<20 + 1 // the holes come back as zeros
	}
	out := h.sh(t, `set -e
echo plain > plain; mkdir folder; echo '#!/bin/sh' > script; chmod 755 script; (umask 077; echo x > closed)
touch -d '2002-03-04 05:06:07.123456789 UTC' timed; echo more >> old/there
ln -s plain link; ln -s /nowhere/at/all dangling; ln plain hard; mkfifo pipe
echo lower > name; echo upper > NAME; echo x > 'a b
c'; echo x > 'ünï'
truncate -s 3M sparse; printf end | dd of=sparse bs=1 seek=`+strconv.FormatInt(size-3, 10)+` conv=notrunc 2>/dev/null
test "$(stat -c %a:%Y old/there)" != "" && stat -c '%a %u' old/there && id -u
tail -c 3 sparse; test -O plain && test -G plain && echo mine`)
	inside := strings.Fields(out.Stdout)
	if len(inside) != 4 || inside[0] != "640" || inside[1] != inside[2] || inside[3] != "endmine" {
		t.Errorf("inside: %q %q", out.Stdout, out.Stderr)
	}
	var owner unix.Stat_t
	if err := unix.Lstat(h.Project, &owner); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]uint32{
		"plain": unix.S_IFREG | 0o644, "folder": unix.S_IFDIR | 0o755, "script": unix.S_IFREG | 0o755,
		"closed": unix.S_IFREG | 0o600,
		"link":   unix.S_IFLNK | 0o777, "dangling": unix.S_IFLNK | 0o777, "hard": unix.S_IFREG | 0o644,
		"pipe": unix.S_IFIFO | 0o644,
		"name": unix.S_IFREG | 0o644, "NAME": unix.S_IFREG | 0o644, "a b\nc": unix.S_IFREG | 0o644,
		"ünï":       unix.S_IFREG | 0o644,
		"old/there": unix.S_IFREG | 0o640, "sparse": unix.S_IFREG | 0o644, "timed": unix.S_IFREG | 0o644,
	} {
		if name == "pipe" && (h.differ(PipesInside) || h.copies) || name == "dangling" && h.copies {
			continue // an apply holds a link that leads out of the project
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(h.Project, name), &st); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if st.Mode != mode || st.Uid != owner.Uid || st.Gid != owner.Gid {
			t.Errorf("%s: mode %o of %d:%d, want %o of %d:%d", name, st.Mode, st.Uid, st.Gid, mode, owner.Uid, owner.Gid)
		}
		switch name {
		case "timed":
			if want := time.Date(2002, 3, 4, 5, 6, 7, 123456789, time.UTC); !time.Unix(st.Mtim.Unix()).Equal(want) && !h.copies {
				t.Errorf("timed: %v, want %v", time.Unix(st.Mtim.Unix()).UTC(), want)
			}
		case "sparse":
			if st.Size != size || st.Blocks > 1<<11 && !h.copies {
				t.Errorf("sparse: %d bytes in %d blocks", st.Size, st.Blocks)
			}
		case "hard":
			if st.Nlink != 2 && !h.copies {
				t.Errorf("hard: %d links", st.Nlink)
			}
		}
	}
	if read(t, filepath.Join(h.Project, "name")) != "lower\n" || read(t, filepath.Join(h.Project, "NAME")) != "upper\n" {
		t.Error("names of another case are one file")
	}
	to, err := os.Readlink(filepath.Join(h.Project, "dangling"))
	if (err != nil || to != "/nowhere/at/all") && !h.copies {
		t.Errorf("dangling: %q, %v", to, err)
	}
}

// watcher sees changes by inotify(7) and answers with one of its own; a socket
// lies in the project meanwhile.
const watcher = `
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init()
assert libc.inotify_add_watch(fd, b"watched", 0x100 | 0x80 | 0x200) > 0  # create, moved to, delete
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
open("watched/ready", "w").close()
seen = []
while len(seen) < int(sys.argv[1]):
    data = os.read(fd, 65536)
    while data:
        _, mask, _, n = struct.unpack_from("iIII", data)
        seen.append(data[16:16+n].rstrip(b"\0").decode())
        data = data[16+n:]
print(" ".join(seen))
`

// watched: each side notices the other's changes by file watching, as build tools
// and editors use it.
func watched(t *testing.T, h *Harness) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(h.Project, "watched")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if h.copies { // neither side notices the other
		out := h.Run(t, Options{}, "python3", "-c", strings.TrimSpace(watcher), "1")
		if _, err := os.Lstat(filepath.Join(h.Project, "sock")); out.Stdout != "ready\n" || out.Err != nil || err == nil {
			t.Errorf("inside heard %+v; a socket came back: %v", out, err == nil)
		}
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	count, want := "4", "ready made moved moved\n"
	if h.differ(WatchesInside) {
		count, want = "1", "ready\n"
	}
	out := h.Run(t, Options{During: func(sandbox.Box) {
		if err := events.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 4096)
		n, err := events.Read(buf)
		if err != nil || n < 16 || !strings.HasPrefix(string(buf[16:n]), "ready\x00") {
			t.Errorf("the host heard %q, %v", buf[:n], err)
		} else if mask := binary.NativeEndian.Uint32(buf[4:]); mask != unix.IN_CREATE {
			t.Errorf("the host heard %#x", mask)
		}
		h.Write(t, "watched/made", "")
		if err := os.Rename(filepath.Join(dir, "made"), filepath.Join(dir, "moved")); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(dir, "moved")); err != nil {
			t.Error(err)
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(h.Project, "sock"), &st); err != nil ||
			st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
			t.Errorf("the socket made inside: %o, %v", st.Mode, err)
		}
	}}, "python3", "-c", strings.TrimSpace(watcher), count)
	if out.Stdout != want || out.Err != nil {
		t.Error(fmt.Sprintf("inside heard %q, want %q:", out.Stdout, want), out.Stderr, out.Err)
	}
}
