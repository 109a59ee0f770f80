package listed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// patterned are files that a pattern names: there at the start, and made later.
func patterned() escape.Case {
	return escape.Case{
		ID: "FS-03c", Class: "files by a pattern", Attack: "files that a pattern forbids: those that are there by other names, links, descriptors, another process's root; those made later by every call that makes a name",
		Source: "Cedar's patterns", Layers: []string{"view", "listener"}, Only: []escape.Column{escape.Native, escape.WithImage, escape.User},
		Prepare: prepareClosed, Flags: under("patterns.cedar", func(_ *escape.World, l world) string {
			return `forbid (principal, action == Action::"FileOpen", resource in Glob::"listed/**/*.shut");` + "\n"
		}),
		Tries: func(in escape.Inside) []escape.Try {
			l := closedOutside(in)
			var out []escape.Try
			for name, do := range texts(l) {
				if name == "by another's root" { // beside a pattern nothing is opened so: whose root it is cannot be told
					out = append(out, escape.Try{Name: "read " + name, Do: func() error { return do(l.base + "/there.shut") }, Held: []error{syscall.EACCES}})
					continue
				}
				out = append(out, closedTo("read "+name, l.open, l.base+"/there.shut", do))
				out = append(out, closedTo("read below, "+name, l.open, l.base+"/deep/there.shut", do))
			}
			for name, do := range naming(l) {
				out = append(out, closedTo("make "+name, l.out+"/later", l.out+"/later.shut", do))
			}
			return out
		},
	}
}

// closedTo is twice with every answer of a view, of a call that is refused, and of a folder that is held.
func closedTo(name, permitted, not string, do way) escape.Try {
	return twice(name, permitted, not, do, append(escape.Denied(), syscall.EBUSY, syscall.EXDEV, syscall.ENOEXEC)...)
}

func prepareClosed(w *escape.World) error { return furnishClosed(w.Inside) }

func furnishClosed(in escape.Inside) error {
	if err := provide(in); err != nil {
		return err
	}
	l := at(in.Project)
	for name, text := range map[string]string{
		"/there.shut": "secret\n", "/deep/there.shut": "secret\n", "/asked": "#!/usr/bin/sh\necho $1\n", "/asked-too": "#!/usr/bin/sh\necho $1\n", "/open/fine": "#!/usr/bin/sh\necho fine\n",
	} {
		if err := os.MkdirAll(filepath.Dir(l.base+name), 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		if err := os.WriteFile(l.base+name, []byte(text), 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

func closedOutside(in escape.Inside) world {
	if in.Control {
		_ = furnishClosed(in)
	}
	return at(in.Project)
}

// texts are ways to read that come off where there is something to read.
func texts(l world) map[string]way {
	of := func(open func(p string) (int, error)) way {
		return func(p string) error {
			fd, err := open(p)
			if err != nil {
				return err
			}
			f := os.NewFile(uintptr(fd), p)
			defer f.Close()
			text, err := io.ReadAll(io.LimitReader(f, 1<<10))
			if err == nil && len(text) == 0 {
				err = escape.ErrNothing
			}
			return err
		}
	}
	named := func(name func(p string) string) way {
		return of(func(p string) (int, error) { return unix.Open(name(p), unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	}
	place := func(p string, through func(fd int) (int, error)) (int, error) {
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		got, err := through(fd)
		if err != nil {
			return -1, err
		}
		defer unix.Close(got)
		return unix.Open("/proc/self/fd/"+strconv.Itoa(got), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	return map[string]way{
		"by its name": named(func(p string) string { return p }),
		"with dots": named(func(p string) string {
			return filepath.Dir(p) + "/.//../" + filepath.Base(filepath.Dir(p)) + "/" + filepath.Base(p)
		}),
		"by /proc/self/root": named(func(p string) string { return "/proc/self/root" + p }),
		"by another's root":  named(func(p string) string { return "/proc/" + strconv.Itoa(os.Getppid()) + "/root" + p }),
		"by a place":         of(func(p string) (int, error) { return place(p, own) }),
		"received":           of(func(p string) (int, error) { return place(p, handed) }),
		"by its folder": of(func(p string) (int, error) {
			dir, err := unix.Open(filepath.Dir(p), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return -1, err
			}
			defer unix.Close(dir)
			return unix.Openat(dir, filepath.Base(p), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}),
		"by a link": of(func(p string) (int, error) {
			link := l.out + "/led"
			defer os.Remove(link)
			if err := os.Symlink(p, link); err != nil {
				return -1, err
			}
			return unix.Open(link, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}),
		"by a hard link": of(func(p string) (int, error) {
			link := l.out + "/linked"
			defer os.Remove(link)
			if err := os.Link(p, link); err != nil {
				return -1, err
			}
			return unix.Open(link, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}),
	}
}

// naming are the calls by which a name comes to be.
func naming(l world) map[string]way {
	from := l.out + "/before"
	made := func(do func(p string) error) way {
		return func(p string) error {
			if err := os.WriteFile(from, []byte("made\n"), 0o600); err != nil {
				return err
			}
			defer func() { _ = errors.Join(os.Remove(from), os.Remove(p)) }()
			return do(p)
		}
	}
	return map[string]way{
		"opened": made(func(p string) error { return closed(unix.Open(p, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)) }),
		"opened new": made(func(p string) error {
			return closed(unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
		}),
		"renamed":   made(func(p string) error { return os.Rename(from, p) }),
		"linked":    made(func(p string) error { return os.Link(from, p) }),
		"linked to": made(func(p string) error { return os.Symlink(from, p) }),
		"a folder":  made(func(p string) error { return unix.Mkdir(p, 0o700) }),
		"a pipe":    made(func(p string) error { return unix.Mkfifo(p, 0o600) }),
		"linked from a descriptor": made(func(p string) error {
			fd, err := unix.Open(l.out, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
		}),
	}
}
