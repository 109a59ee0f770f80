// Package system makes a root file system of programs of this host, for tests of drivers that show an image.
//
// It holds what the suite of drivers runs. The call is [Make].
package system

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rootPrograms are what the suite's scripts run.
var rootPrograms = strings.Fields(`sh bash cat ls cp mv rm ln mkdir rmdir mkfifo mknod touch chmod dirname basename seq
	sleep date head wc grep tr
	sed id env hostname pwd readlink true false echo setsid unshare mount umount chroot dmesg nice su ip python3 git
	uname stat sort kill ps
	truncate tail dd test`)

// rootFolders are what these programs have besides.
var rootFolders = []string{"/usr/lib/git-core", "/usr/share/git-core"}

// Make makes a root file system of programs of the host's, for the drivers
// that show an image: of all that the suite runs, if none is named.
func Make(t testing.TB, programs ...string) string {
	t.Helper()
	r := &hostRoot{t: t, dir: t.TempDir(), done: map[string]bool{}}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if to, err := os.Readlink("/" + name); err == nil {
			r.must(os.Symlink(to, filepath.Join(r.dir, name)))
		}
	}
	for _, name := range []string{"etc", "home", "tmp", "var", "root", "dev", "proc", "sys", "run"} {
		r.must(os.MkdirAll(filepath.Join(r.dir, name), 0o755))
	}
	if len(programs) == 0 {
		programs = rootPrograms
		python, err := filepath.Glob("/usr/lib/python3.*")
		r.must(err)
		for _, dir := range append(rootFolders, python...) {
			r.folder(dir)
		}
	}
	for _, name := range programs {
		for _, dir := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
			if at := filepath.Join(dir, name); exists(at) {
				r.program(at)
				break
			}
		}
	}
	r.must(os.WriteFile(filepath.Join(r.dir, "etc/passwd"),
		[]byte("root:x:0:0:root:/root:/bin/bash\nimaginary:x:77:77::/:/bin/sh\n"), 0o644))
	// As in many images: these lead where a careless driver would write.
	r.must(os.Symlink("/run/systemd/resolve/stub-resolv.conf", filepath.Join(r.dir, "etc/resolv.conf")))
	r.must(os.Symlink("/proc/self/mounts", filepath.Join(r.dir, "etc/mtab")))
	return r.dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type hostRoot struct {
	t    testing.TB
	dir  string
	done map[string]bool
}

func (r *hostRoot) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// program copies a program and the libraries that it is linked to.
func (r *hostRoot) program(at string) {
	if !r.copy(at) {
		return
	}
	out, err := exec.CommandContext(r.t.Context(), "ldd", at).Output()
	if err != nil {
		return // a script, or linked to nothing
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			r.copy(word)
		}
	}
}

func (r *hostRoot) folder(dir string) {
	if !exists(dir) {
		return
	}
	r.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "test" || d.Name() == "__pycache__" || d.Name() == "idlelib") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			r.copy(path)
		}
		if err == nil && strings.HasSuffix(path, ".so") {
			r.program(path)
		}
		return err
	}))
}

// copy puts a file of the host at the same place. Links stay links; a file that
// has many names, as git's programs have, is copied once.
func (r *hostRoot) copy(from string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(from))
	r.must(err)
	at := filepath.Join(dir, filepath.Base(from))
	if r.done[at] {
		return false
	}
	r.done[at] = true
	to := filepath.Join(r.dir, at)
	r.must(os.MkdirAll(filepath.Dir(to), 0o755))
	if link, err := os.Readlink(at); err == nil {
		r.must(os.Symlink(link, to))
		if real, err := filepath.EvalSymlinks(at); err == nil {
			r.program(real)
		}
		return false
	}
	in, err := os.Open(at)
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	r.must(err)
	defer in.Close()
	fi, err := in.Stat()
	r.must(err)
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, fi.Mode().Perm()|0o600)
	r.must(err)
	_, err = io.Copy(out, in)
	r.must(errors.Join(err, out.Chmod(fi.Mode().Perm()|0o600), out.Close()))
	return true
}
