package corpus

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs08b() escape.Case {
	return escape.Case{
		ID: "FS-08b", Class: "git files, by other ways", Attack: "exchange hooks, configuration and .git with the agent's own; write by hard links, by descriptors opened before, by /proc/self, links and truncation; two threads that race",
		Source: "CVE-2026-25725; claude-code 2.1.210 (a link that comes late)", Layers: []string{"protect"},
		Tries: func(in escape.Inside) []escape.Try {
			git := in.Project + "/.git"
			mine := in.Project + "/mine08b"
			// swap exchanges two paths, and back where that came off.
			swap := func(path string, dir bool) func() error {
				return func() error {
					if err := makeOne(mine, dir); err != nil {
						return err
					}
					defer os.RemoveAll(mine)
					if err := unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE); err != nil {
						return err
					}
					return unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
				}
			}
			return []escape.Try{
				held("exchange hooks", swap(git+"/hooks", true)),
				held("exchange config", swap(git+"/config", false)),
				held("exchange .git", swap(git, true)),
				held("exchange .claude", swap(in.Project+"/.claude", true)),
				held("hard link of config", func() error {
					defer os.Remove(mine)
					if err := os.Link(git+"/config", mine); err != nil {
						return err
					}
					return appendTo(mine, "FS-08b")
				}),
				held("config by a descriptor for reading", func() error {
					fd, err := fdOf(git+"/config", unix.O_RDONLY)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return appendTo("/proc/self/fd/"+itoa(fd), "FS-08b")
				}),
				held("a hook by a descriptor of the folder", func() error {
					fd, err := fdOf(git+"/hooks", unix.O_PATH|unix.O_DIRECTORY)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return create("/proc/self/fd/"+itoa(fd)+"/pre-rebase", "FS-08b")
				}),
				held("a hook by /proc/self/cwd", func() error {
					if err := os.Chdir(git + "/objects"); err != nil {
						return err
					}
					return create("/proc/self/cwd/../hooks/post-commit", "FS-08b")
				}),
				held("a hook by /proc/self/root", func() error { return create("/proc/self/root"+git+"/hooks/post-rewrite", "FS-08b") }),
				held("a hook by a link to .git", func() error {
					link := in.Project + "/link08b"
					if err := os.Symlink(".git", link); err != nil {
						return err
					}
					defer os.Remove(link)
					return create(link+"/hooks/update", "FS-08b")
				}),
				// gVisor says of both that they are done, and changes nothing.
				{Name: "truncate config", Held: append(fixed(), escape.ErrNothing), Do: func() error {
					if err := os.Truncate(git+"/config", 0); err != nil {
						return err
					}
					return unchanged(git+"/config", func(fi os.FileInfo) bool { return fi.Size() == 0 })
				}},
				{Name: "make a sample executable", Held: append(fixed(), escape.ErrNothing), Do: func() error {
					if err := os.Chmod(git+"/hooks/pre-push.sample", 0o777); err != nil {
						return err
					}
					return unchanged(git+"/hooks/pre-push.sample", func(fi os.FileInfo) bool { return fi.Mode().Perm() == 0o777 })
				}},
				{Name: "a file without a name in hooks", Held: append(fixed(), unix.EOPNOTSUPP), Do: func() error {
					fd, err := fdOf(git+"/hooks", unix.O_TMPFILE|unix.O_WRONLY)
					// Files that a machine has from virtiofs all have names: EOPNOTSUPP.
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(fd), unix.AT_FDCWD, git+"/hooks/post-applypatch", unix.AT_SYMLINK_FOLLOW)
				}},
				held("a race of renaming and writing", func() error { return race(git) }),
			}
		},
	}
}

// unchanged is the answer where a file is not as a call said that it made it.
func unchanged(path string, is func(os.FileInfo) bool) error {
	fi, err := os.Stat(path)
	if err == nil && !is(fi) {
		return escape.ErrNothing
	}
	return err
}

// makeOne makes an empty folder or a file.
func makeOne(path string, dir bool) error {
	if dir {
		return os.Mkdir(path, 0o755)
	}
	return create(path, "FS-08b")
}

// race renames hooks away and makes it anew, beside one that writes into it. The
// last refusal is the answer where nothing came off within a third of a second.
func race(git string) error {
	end := time.Now().Add(time.Second / 3)
	renamed := make(chan error, 1)
	go func() {
		err := errors.New("never tried")
		for time.Now().Before(end) && err != nil {
			if err = os.Rename(git+"/hooks", git+"/hooks08b"); err == nil {
				err = errors.Join(os.RemoveAll(git+"/hooks"), os.Rename(git+"/hooks08b", git+"/hooks"))
			}
		}
		renamed <- err
	}()
	err := errors.New("never tried")
	for time.Now().Before(end) && err != nil {
		err = create(git+"/hooks/commit-msg", "FS-08b")
	}
	if other := <-renamed; err == nil || other == nil {
		return nil
	}
	return err
}
