package listed

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// came is what programs and scripts of these ways say when they run.
const came = "it-came-off"

// files by other means: what runs, mounts or swaps a file instead of opening it.
func means() escape.Case {
	return escape.Case{
		ID: "FS-03b", Class: "list of files by other means", Attack: "under a list of what may be opened: another file executed, by its loader, by an interpreter, as a script; a descriptor opened again for more; its folder moved; a link that is swapped while it is opened; bound, cloned and overlaid mounts",
		Source: "KubeArmor and Leash bypasses", Layers: []string{"landlock", "seccomp", "capabilities"}, Except: elsewhere(), Contained: true,
		Prepare: func(w *escape.World) error { return provide(w.Inside) }, Flags: under("means.cedar", opens),
		Tries: func(in escape.Inside) []escape.Try {
			if in.Control {
				_ = provide(in)
			}
			l := at(in.Project)
			shut, open := l.base+"/shut", filepath.Dir(l.open)
			var out []escape.Try
			for name, do := range running() {
				out = append(out, twice("run "+name, open, shut, do))
			}
			out = append(out,
				twice("for more, by its descriptor", l.out+"/kept", l.open, func(p string) error { return more(p, own) }),
				twice("for more, received", l.out+"/kept", l.open, func(p string) error { return more(p, handed) }),
				twice("make a socket", l.out, l.base, bound),
				twice("move its folder", l.out+"/folder", shut, func(p string) error { return carried(p, l.out+"/carried") }, syscall.EXDEV),
				escape.Try{Name: "a link that is swapped", Do: func() error { return swapped(l) }, Held: []error{syscall.EACCES}})
			for name, do := range mounting(l) {
				out = append(out, escape.Try{Name: "mount " + name, Do: do, Held: []error{syscall.EPERM}, Open: []error{syscall.ENODEV}})
			}
			return out
		},
	}
}

// provide makes what the ways need: the same program and scripts in a folder that may be
// read, and in one that may not.
func provide(in escape.Inside) error {
	if err := furnish(in); err != nil {
		return err
	}
	l := at(in.Project)
	for _, dir := range []string{filepath.Dir(l.open), l.base + "/shut", l.out + "/folder", l.out + "/mounted"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("provide: %w", err)
		}
		if err := duplicate("/usr/bin/echo", dir+"/program"); err != nil {
			return err
		}
		for name, text := range map[string]string{"secret": "secret\n", "script": "#!/usr/bin/sh\necho $1\n"} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o755); err != nil {
				return fmt.Errorf("provide: %w", err)
			}
		}
	}
	return nil
}

func running() map[string]way {
	return map[string]way{
		"as it is":          func(dir string) error { return says(dir + "/program") },
		"as a script":       func(dir string) error { return says(dir + "/script") },
		"by an interpreter": func(dir string) error { return says("/usr/bin/sh", dir+"/script") },
		"by an interpreter's own reading": func(dir string) error {
			return says("/usr/bin/sh", "-c", `. "$0"`, dir+"/script")
		},
		"by the loader": func(dir string) error {
			for _, loader := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
				if _, err := os.Stat(loader); err == nil {
					return says(loader, dir+"/program")
				}
			}
			return os.ErrNotExist
		},
	}
}

// says runs a program that comes off if it says so; what it could not open it says in words.
func says(words ...string) error {
	cmd := exec.CommandContext(context.Background(), words[0], append(words[1:], came)...)
	cmd.Env = []string{"LC_ALL=C"}
	text, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(text), came):
		return nil
	case strings.Contains(string(text), "ermission denied"):
		return syscall.EACCES
	case err == nil:
		return fmt.Errorf("said %q", text)
	}
	return err
}

func own(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// more opens a file for reading, and what comes of the descriptor for writing.
func more(path string, through func(fd int) (int, error)) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open for reading: %v", err) //nolint:errorlint // an answer of this one must not count
	}
	defer unix.Close(fd)
	got, err := through(fd)
	if err != nil {
		return fmt.Errorf("pass it: %v", err) //nolint:errorlint // nor of this one
	}
	defer unix.Close(got)
	return closed(unix.Open("/proc/self/fd/"+strconv.Itoa(got), unix.O_WRONLY|unix.O_CLOEXEC, 0))
}

func bound(dir string) error {
	name := dir + "/bound"
	defer os.Remove(name)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", name)
	if err != nil {
		return err
	}
	return l.Close()
}

// carried moves a folder to where everything may be read, reads in it, and moves it back.
func carried(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	err := read(to + "/secret")
	if back := os.Rename(to, from); err == nil {
		err = back
	}
	return err
}

// swapped opens a link again and again that leads to a permitted file and to another in turn,
// until it was seen at both.
func swapped(l world) error {
	link, next := l.out+"/swapped", l.out+"/swapped-next"
	defer os.Remove(link)
	swap := func(to string) error {
		if err := os.Symlink(to, next); err != nil {
			return err
		}
		return os.Rename(next, link)
	}
	if err := swap(l.open); err != nil {
		return fmt.Errorf("control: make the link: %v", err) //nolint:errorlint // an answer of this one must not count
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = swap([]string{l.secret, l.open}[i%2])
			}
		}
	}()
	defer func() { close(stop); <-done }()
	var refused error
	for permitted, other := 0, 0; permitted < 200 || other < 200; {
		text, err := os.ReadFile(link)
		switch {
		case err != nil:
			refused = err
			other++
		case len(text) == 0:
			refused = escape.ErrNothing // a cover
			other++
		case string(text) == "open\n":
			permitted++
		default:
			return nil
		}
	}
	return refused
}

// mounting has another file appear in a folder that may be read.
func mounting(l world) map[string]func() error {
	shut, over := l.base+"/shut", l.out+"/mounted"
	mounted := func(source, kind string, flags uintptr, data string) error {
		if err := unix.Mount(source, over, kind, flags, data); err != nil {
			return err
		}
		defer func() { _ = unix.Unmount(over, unix.MNT_DETACH) }()
		return read(over + "/secret")
	}
	return map[string]func() error{
		"bound": func() error { return mounted(shut, "", unix.MS_BIND, "") },
		"overlaid": func() error {
			return mounted("none", "overlay", unix.MS_RDONLY, "lowerdir="+shut+":"+l.out+"/folder")
		},
		"cloned": func() error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, shut, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return closed(unix.Openat(fd, "secret", unix.O_RDONLY|unix.O_CLOEXEC, 0))
		},
	}
}
