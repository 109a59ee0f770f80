package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
)

// read opens and reads a file that is not empty.
func read(name string) func() error {
	return func() error {
		text, err := os.ReadFile(name)
		if err == nil && len(text) == 0 {
			return errors.New("it is empty")
		}
		return err
	}
}

// runs executes a program to its end.
func runs(words ...string) func() error {
	return func() error {
		c := exec.CommandContext(context.Background(), words[0], words[1:]...)
		c.Args[0] = "busybox" // which goes by its name
		return c.Run()
	}
}

// both does one thing after the other.
func both(steps ...func() error) func() error {
	return func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
}

func rename(from, to string) func() error { return func() error { return os.Rename(from, to) } }

func withFile(name string, flags int, do func(fd int) error) func() error {
	return func() error {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	}
}

// mapped maps a file and, where asked, makes it code afterwards.
func mapped(first, then int) func(fd int) error {
	return func(fd int) error {
		b, err := unix.Mmap(fd, 0, 4096, first, unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		if then == 0 {
			return nil
		}
		return unix.Mprotect(b, then)
	}
}

// refusedBy executes a program that says itself what was refused to it.
func refusedBy(words ...string) func() error {
	return func() error {
		out, err := exec.CommandContext(context.Background(), words[0], words[1:]...).CombinedOutput()
		switch {
		case err == nil:
			return nil
		case strings.Contains(strings.ToLower(string(out)), "permission denied"),
			strings.Contains(string(out), "failed to map segment"): // the loader does not say why
			return unix.EACCES
		}
		return fmt.Errorf("%w: %s", err, out)
	}
}

// attempts are what is tried in the guest, each by a process of its own.
var attempts = map[string]func() error{
	"run other":           runs("/t/bin/other", "true"),
	"run moved":           runs("/t/open/moved", "true"),
	"move other":          moveOther,
	"hammer":              hammer,
	"open":                read("/t/secret/key"),
	"open deep":           read("/t/secret/deep/er/key"),
	"open single":         read("/t/single"),
	"open a folder":       func() error { _, err := os.ReadDir("/t/secret"); return err },
	"working folder":      both(func() error { return os.Chdir("/t/secret") }, read("key")),
	"symlink":             both(func() error { return os.Symlink("/t/secret", "/t/open/link") }, read("/t/open/link/key")),
	"hard link":           both(func() error { return os.Link("/t/secret/key", "/t/open/link") }, read("/t/open/link")),
	"hard link of a file": both(func() error { return os.Link("/t/single", "/t/open/link") }, read("/t/open/link")),
	"rename":              both(rename("/t/secret/key", "/t/open/key"), read("/t/open/key")),
	"rename the folder":   both(rename("/t/secret", "/t/open/was"), read("/t/open/was/key")),
	"rename above":        both(rename("/t/above", "/t/elsewhere"), func() error { return os.MkdirAll("/t/above/secret", 0o755) }),
	"exchange": both(func() error {
		return unix.Renameat2(unix.AT_FDCWD, "/t/open/file", unix.AT_FDCWD, "/t/secret/key", unix.RENAME_EXCHANGE)
	}, read("/t/open/file")),
	"bind mount": both(func() error { return unix.Mount("/t/secret", "/t/mnt", "", unix.MS_BIND, "") }, read("/t/mnt/key")),
	"open_tree": func() error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/t/secret", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		key, err := unix.Openat(fd, "key", unix.O_RDONLY, 0)
		unix.Close(key)
		return err
	},
	"overlay": both(func() error {
		return unix.Mount("overlay", "/t/mnt", "overlay", 0, "lowerdir=/t/secret:/t/open")
	}, read("/t/mnt/key")),
	"overlay by fsopen": func() error {
		fs, err := unix.Fsopen("overlay", 0)
		if err != nil {
			return err
		}
		if err := unix.FsconfigSetString(fs, "lowerdir", "/t/secret:/t/open"); err != nil {
			return err
		}
		if err := unix.FsconfigCreate(fs); err != nil {
			return err
		}
		mnt, err := unix.Fsmount(fs, 0, 0)
		if err != nil {
			return err
		}
		key, err := unix.Openat(mnt, "key", unix.O_RDONLY, 0)
		unix.Close(key)
		return err
	},
	"chroot": both(func() error { return unix.Chroot("/t/secret") }, read("/key")),
	"user namespace": both(func() error { return unix.Unshare(unix.CLONE_NEWNS) }, func() error {
		return unix.Mount("/t/secret", "/t/mnt", "", unix.MS_BIND, "")
	}, read("/t/mnt/key")),
	"unmount what covers":      both(func() error { return unix.Unmount("/t/mnt", 0) }, read("/t/mnt/covered")),
	"by the host's bind mount": read("/t/mnt/key"),
	"O_PATH and /proc/self/fd": withFile("/t/secret/key", unix.O_PATH, func(fd int) error { return read(fmt.Sprintf("/proc/self/fd/%d", fd))() }),
	"/proc/self/root":          read("/proc/self/root/t/secret/key"),
	"open by handle": func() error {
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/t/secret/key", 0)
		if err != nil {
			return err
		}
		mnt, err := unix.Open("/t", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		fd, err := unix.OpenByHandleAt(mnt, handle, unix.O_RDONLY)
		unix.Close(fd)
		return err
	},
	"a passed descriptor": func() error {
		fd, err := received()
		if err != nil {
			return err
		}
		_, err = unix.Read(fd, make([]byte, 64))
		return err
	},
	"io_uring":              func() error { return uringOpen("/t/secret/key") },
	"moved cgroup":          both(read("/t/open/file"), ready, read("/t/secret/key")),
	"moved cgroup, a child": both(ready, refusedBy("/bin/busybox", "cat", "/t/secret/key")),
	"open for mmap":         withFile("/t/secret/key", unix.O_RDONLY, mapped(unix.PROT_READ, 0)),

	"create":                               func() error { return os.WriteFile("/t/kept/new", nil, 0o644) },
	"write":                                func() error { return os.WriteFile("/t/kept/file", []byte("other"), 0o644) },
	"append":                               withFile("/t/kept/file", unix.O_WRONLY|unix.O_APPEND, func(int) error { return nil }),
	"truncate":                             func() error { return unix.Truncate("/t/kept/file", 0) },
	"remove":                               func() error { return os.Remove("/t/kept/file") },
	"remove a folder":                      both(func() error { return os.Remove("/t/kept/dir/file") }, func() error { return os.Remove("/t/kept/dir") }),
	"rename within":                        rename("/t/kept/file", "/t/kept/other"),
	"rename into":                          rename("/t/open/file", "/t/kept/file"),
	"rename out":                           rename("/t/kept/file", "/t/open/out"),
	"link into":                            func() error { return os.Link("/t/open/file", "/t/kept/in") },
	"link out":                             both(func() error { return os.Link("/t/kept/file", "/t/open/out") }, func() error { return os.WriteFile("/t/open/out", []byte("x"), 0o644) }),
	"make a folder":                        func() error { return os.Mkdir("/t/kept/new", 0o755) },
	"make a symlink":                       func() error { return os.Symlink("x", "/t/kept/new") },
	"make a node":                          func() error { return unix.Mknod("/t/kept/new", unix.S_IFIFO|0o644, 0) },
	"O_TMPFILE":                            withFile("/t/kept", unix.O_TMPFILE|unix.O_RDWR, func(int) error { return nil }),
	"mode":                                 func() error { return os.Chmod("/t/kept/file", 0o777) },
	"owner":                                func() error { return os.Chown("/t/kept/file", 1, 1) },
	"times":                                func() error { return unix.Utimes("/t/kept/file", []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
	"attribute":                            func() error { return unix.Setxattr("/t/kept/file", "trusted.x", []byte("1"), 0) },
	"mode by a descriptor":                 withFile("/t/kept/file", unix.O_RDONLY, func(fd int) error { return unix.Fchmod(fd, 0o777) }),
	"attribute removed":                    func() error { return unix.Removexattr("/t/kept/file", "trusted.before") },
	"read where only writing is forbidden": both(read("/t/kept/file"), func() error { return os.WriteFile("/t/kept/file", []byte("other"), 0o644) }),

	"execute":        runs("/t/bin/busybox", "true"),
	"by a link":      both(func() error { return os.Symlink("/t/bin/busybox", "/t/open/b") }, runs("/t/open/b", "true")),
	"by a hard link": both(func() error { return os.Link("/t/bin/busybox", "/t/open/b") }, runs("/t/open/b", "true")),
	"renamed":        both(rename("/t/bin/busybox", "/t/open/b"), runs("/t/open/b", "true")),
	"by its folder":  both(func() error { return os.Chdir("/t/bin") }, runs("./busybox", "true")),
	"execveat": withFile("/t/bin/busybox", unix.O_PATH, func(fd int) error {
		return runs(fmt.Sprintf("/proc/self/fd/%d", fd), "true")()
	}),
	"chroot and execute": both(func() error { return unix.Chroot("/t/bin") }, func() error { return os.Chdir("/") }, func() error {
		return unix.Exec("/busybox", []string{"busybox", "echo", "through"}, nil)
	}),
	"as an interpreter": func() error {
		c := exec.CommandContext(context.Background(), "/t/open/script")
		return c.Run()
	},
	"by ld.so":         refusedBy("/lib64/ld-linux-x86-64.so.2", "/t/bin/true"),
	"mmap as code":     withFile("/t/bin/busybox", unix.O_RDONLY, mapped(unix.PROT_READ|unix.PROT_EXEC, 0)),
	"mprotect as code": withFile("/t/bin/busybox", unix.O_RDONLY, mapped(unix.PROT_READ, unix.PROT_READ|unix.PROT_EXEC)),
	"by a shell":       refusedBy("/bin/busybox", "sh", "-c", "/t/bin/busybox true"),
	"memfd": func() error {
		text, err := os.ReadFile("/t/bin/busybox")
		if err != nil {
			return err
		}
		fd, err := unix.MemfdCreate("x", 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "x")
		if _, err := f.Write(text); err != nil {
			return err
		}
		return runs(fmt.Sprintf("/proc/self/fd/%d", fd), "true")()
	},
	"a copy": func() error {
		text, err := os.ReadFile("/t/bin/busybox")
		if err != nil {
			return err
		}
		if err := os.WriteFile("/t/open/b", text, 0o755); err != nil {
			return err
		}
		return runs("/t/open/b", "true")()
	},
	"a script":                    runs("/t/bin/script"),
	"a script by its interpreter": refusedBy("/bin/busybox", "sh", "/t/bin/script"),

	"deep": func() error {
		if err := os.Chdir("/t/open"); err != nil {
			return err
		}
		for range 70 {
			if err := os.Mkdir("d", 0o755); err != nil {
				return err
			}
			if err := os.Chdir("d"); err != nil {
				return err
			}
		}
		return nil
	},
	"used": both(read("/t/open/file"), read("/t/open/file"), withFile("/t/kept/file", unix.O_WRONLY, func(int) error { return nil }),
		func() error { _, err := os.ReadDir("/t/open"); return err }, func() error { return os.WriteFile("/t/open/dir/new", nil, 0o644) },
		func() error { return os.Remove("/t/open/dir/new") }),
	"after the session": both(read("/t/open/file"), ready, read("/t/open/file")),
	"after a reload":    both(read("/t/open/file"), ready, read("/t/open/file")),
	"flood": func() error {
		for range 2000 {
			if _, err := os.Open("/t/secret/key"); err == nil {
				return nil
			}
		}
		return unix.EACCES
	},
	"ten thousandth": read("/t/open/9999"),
	// One line for each name that descriptor 3 lists: what can be done with it.
	"judge all": func() error {
		list, err := io.ReadAll(os.NewFile(3, "names"))
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(string(list), "\n") {
			var can lsm.Rights
			for right, err := range map[lsm.Rights]error{
				lsm.Read:  withFile(name, unix.O_RDONLY, func(int) error { return nil })(),
				lsm.Write: unix.Chmod(name, 0o755),
			} {
				if err == nil {
					can |= right
				} else if !errors.Is(err, unix.EACCES) {
					return err
				}
			}
			fmt.Printf("%s %d\n", name, can)
		}
		return nil
	},
}
