// Package listed has the attempts on lists of files and programs (Cedar permits that Landlock
// keeps), and on what patterns, digests and questions close, in which each way is tried twice: on what is permitted, where it must come off, and on
// what is not.
//
// Most readers want [Cases].
package listed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// Cases are the attempts.
func Cases() []escape.Case {
	return []escape.Case{files(), means(), programs(), programsAlone(), patterned(), asked(), digested(), askedPrograms()}
}

// elsewhere is why lists and questions have no meaning on other levels.
func elsewhere() map[escape.Column]string {
	const refused = "refused by a line: only native keeps them"
	return map[escape.Column]string{
		escape.User: refused, escape.GVisor: refused, escape.MicroVM: refused,
		escape.Docker: refused + ", and a kernel that judges files, which the part lsm boots",
	}
}

// world is where things lie. All of a way's own names are in out, which may be written.
type world struct{ base, secret, open, out, copied string }

func at(project string) world {
	base := project + "/listed"
	return world{base: base, secret: base + "/secret", open: base + "/open/file", out: base + "/out", copied: base + "/open/copy"}
}

// way uses a path in some manner; nil means that it came off.
type way func(path string) error

// twice is a way on what is permitted and then on what is not.
func twice(name string, permitted, not string, do way, held ...error) escape.Try {
	return escape.Try{Name: name, Held: append(held, syscall.EACCES), Do: func() error {
		if err := do(permitted); err != nil {
			return fmt.Errorf("control: what is permitted: %v", err) //nolint:errorlint // an answer of this one must not count
		}
		return do(not)
	}}
}

func prepare(w *escape.World) error { return furnish(w.Inside) }

func furnish(in escape.Inside) error {
	l := at(in.Project)
	for name, text := range map[string]string{
		l.secret: "secret\n", l.open: "open\n", l.out + "/kept": "kept\n", l.base + "/script": "#!" + l.copied + " attempts\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return duplicate(in.Self, l.copied)
}

// outside makes the same files for the control, whose world is another: what it lacks fails each try.
func outside(in escape.Inside) world {
	if in.Control {
		_ = furnish(in)
	}
	return at(in.Project)
}

func duplicate(from, to string) error {
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// under are the flags of a cloister under a policy.
func under(name string, policy func(w *escape.World, l world) string) func(*escape.World) []string {
	return func(w *escape.World) []string {
		path := w.Base + "/run/" + name
		if err := w.Write(path, policy(w, at(w.Project))); err != nil {
			return []string{"--policy", "/nowhere"}
		}
		return []string{"--policy", path}
	}
}

func opens(w *escape.World, l world) string {
	return fmt.Sprintf(`permit (principal, action == Action::"FileOpenReadOnly", resource) when { resource in [
	Dir::"/usr", Dir::"/lib", Dir::"/lib64", Dir::"/etc", Dir::"/sys", File::%q, Dir::%q] };
permit (principal, action == Action::"FileOpen", resource in Dir::%q);
`, w.Self, filepath.Dir(l.open), l.out)
}

func executes(w *escape.World, l world) string {
	return fmt.Sprintf(`permit (principal, action == Action::"ProcessExec", resource) when { resource in [File::%q, File::%q] };
`, w.Self, l.base+"/script")
}

func reading(l world) map[string]way {
	return map[string]way{
		"by its name": read,
		"with dots": func(p string) error {
			return read(filepath.Dir(p) + "/.././/" + filepath.Base(filepath.Dir(p)) + "/./" + filepath.Base(p))
		},
		"by /proc/self/root": func(p string) error { return read("/proc/self/root" + p) },
		"by another's root":  func(p string) error { return read("/proc/" + strconv.Itoa(os.Getppid()) + "/root" + p) },
		"by the working folder": func(p string) error {
			rel, err := filepath.Rel(filepath.Dir(filepath.Dir(l.base)), p)
			if err != nil {
				return err
			}
			return read("/proc/self/cwd/../" + rel)
		},
		"by its folder": func(p string) error {
			dir, err := unix.Open(filepath.Dir(p), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(dir)
			return closed(unix.Openat(dir, filepath.Base(p), unix.O_RDONLY|unix.O_CLOEXEC, 0))
		},
		"by a place, opened again": func(p string) error { return again(p, unix.O_RDONLY) },
		"by a link": func(p string) error {
			link := l.out + "/link"
			defer os.Remove(link)
			if err := os.Symlink(p, link); err != nil {
				return err
			}
			return read(link)
		},
		"received": func(p string) error { return passed(p) },
	}
}

func writing() map[string]way {
	opened := func(flags int) way {
		return func(p string) error { return closed(unix.Open(p, flags|unix.O_CLOEXEC, 0)) }
	}
	return map[string]way{
		"by its name":              opened(unix.O_WRONLY),
		"at its end":               opened(unix.O_WRONLY | unix.O_APPEND),
		"over it":                  opened(unix.O_WRONLY | unix.O_CREAT),
		"reading only, emptied":    opened(unix.O_RDONLY | unix.O_TRUNC),
		"its length":               func(p string) error { return unix.Truncate(p, 7) },
		"by a place, opened again": func(p string) error { return again(p, unix.O_WRONLY) },
	}
}

func making() map[string]way {
	gone := func(do func(name string) error) way {
		return func(dir string) error {
			name := dir + "/made"
			defer os.Remove(name)
			return do(name)
		}
	}
	return map[string]way{
		"a file": gone(func(n string) error {
			return closed(unix.Open(n, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
		}),
		"a folder": gone(func(n string) error { return unix.Mkdir(n, 0o700) }),
		"a link":   gone(func(n string) error { return unix.Symlink("x", n) }),
		"a pipe":   gone(func(n string) error { return unix.Mkfifo(n, 0o600) }),
		"a socket": gone(func(n string) error { return unix.Mknod(n, unix.S_IFSOCK|0o600, 0) }),
		"a file without a name": func(dir string) error {
			return closed(unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
		},
	}
}

func moving(l world) map[string]way {
	to := l.out + "/moved"
	back := func(from string, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		if err := os.Rename(to, from); err != nil {
			return err
		}
		return read(from)
	}
	return map[string]way{
		"by a hard link": func(p string) error {
			defer os.Remove(to)
			if err := os.Link(p, to); err != nil {
				return err
			}
			return read(to)
		},
		"by a hard link of its place": func(p string) error {
			defer os.Remove(to)
			fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
		},
		"by a rename": func(p string) error { return back(p, func() error { return os.Rename(p, to) }) },
		"in exchange": func(p string) error {
			if err := os.WriteFile(to, nil, 0o600); err != nil {
				return err
			}
			defer os.Remove(to)
			if err := unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		},
	}
}

func executing(l world) map[string]way {
	opened := func(flags int, path func(fd int) string) way {
		return func(p string) error {
			fd, err := unix.Open(p, flags, 0) // the program that is executed has it still
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return start(path(fd))
		}
	}
	// The folder is of this very process: whoever is started has another /proc/self.
	own := func(fd int) string { return "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(fd) }
	return map[string]way{
		"by its name":        start,
		"with dots":          func(p string) error { return start(filepath.Dir(p) + "/.//" + filepath.Base(p)) },
		"by /proc/self/root": func(p string) error { return start("/proc/self/root" + p) },
		"by a descriptor":    opened(unix.O_RDONLY, own),
		"by a place":         opened(unix.O_PATH, own),
		"by /proc/self/fd":   opened(unix.O_RDONLY, func(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }),
		"by a link": func(p string) error {
			link := l.out + "/link"
			defer os.Remove(link)
			if err := os.Symlink(p, link); err != nil {
				return err
			}
			return start(link)
		},
	}
}

// written are programs that are made in a folder. Where nothing can be written there at all
// it is no way.
func written(self, dir string) []escape.Try {
	name := dir + "/written"
	try := func(what string, do func() error) escape.Try {
		return escape.Try{Name: what + " in " + dir, Do: do, Held: escape.Denied()}
	}
	return []escape.Try{
		try("written", func() error {
			defer os.Remove(name)
			if err := duplicate(self, name); err != nil {
				return err
			}
			return start(name)
		}),
		try("written, and its name gone", func() error {
			defer os.Remove(name)
			if err := duplicate(self, name); err != nil {
				return err
			}
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			os.Remove(name)
			return start("/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(fd))
		}),
		try("written without a name", func() error {
			fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
			if err != nil {
				return err
			}
			return fill(fd, self)
		}),
	}
}

func memory(self string) error {
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	return fill(fd, self)
}

// fill puts a program into what has no name, and executes it.
func fill(fd int, self string) error {
	to := os.NewFile(uintptr(fd), "nameless")
	defer to.Close()
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	read, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(read)
	to.Close() // what is open for writing is executed by no one (ETXTBSY)
	return start("/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(read))
}

func start(path string) error {
	err := exec.CommandContext(context.Background(), path, "attempts").Run()
	if _, ran := errors.AsType[*exec.ExitError](err); ran {
		return nil
	}
	return err
}

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func closed(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// again opens a file by a descriptor that only says where it lies.
func again(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return closed(unix.Open("/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_CLOEXEC, 0))
}

// passed sends a place through a socket, and opens what comes out.
func passed(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	got, err := handed(fd)
	if err != nil {
		return err
	}
	defer unix.Close(got)
	return closed(unix.Open("/proc/self/fd/"+strconv.Itoa(got), unix.O_RDONLY|unix.O_CLOEXEC, 0))
}

// handed sends a descriptor through a socket, and gives what comes out.
func handed(fd int) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return -1, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, net.ErrClosed
	}
	got, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return got[0], nil
}
