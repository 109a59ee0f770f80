package native

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// maxCopied bounds a file of /etc that is copied instead of mounted: a mount
// costs more than a write of this size, at the start and again at the end.
const maxCopied = 512 << 10

// facts looks at what the plan of a view depends on.
func (v *view) facts() (plan.Facts, error) {
	f := plan.Facts{Hold: plan.ReadOnly(), BootID: plan.NewBootID()}
	var err error
	if v.image != "" {
		f.Base, f.Image = plan.OnImage, sandbox.HostPath(v.image)
		f.VarTmp = v.imageFolder(v.real("/var/tmp", true))
	} else {
		f.Etc = hostEtc()
	}
	if v.image == "" || v.hosted != nil && v.hosted.System {
		if f.System, err = hostSystem(); err != nil {
			return f, err
		}
	}
	if v.lent == nil { // they would be the host's own knobs
		f.Bounds = bounds(0)
	}
	f.CPUs = is(os.Stat(plan.CPUs))
	f.Chromium = is(os.Lstat(v.image + sandbox.Chromium))
	for _, name := range plan.Hidden() {
		// What only root may read is closed to the payload, who never is root.
		if fi, err := os.Lstat(name); err == nil && (fi.IsDir() || fi.Mode()&0o006 != 0) {
			f.Hide = append(f.Hide, plan.Found{Path: name, Dir: fi.IsDir()})
		}
	}
	if f.Hosted = v.hosted.planned(); f.Hosted != nil && v.lent == nil {
		f.Hosted.Bounds = bounds(hostedNamespaces)
	}
	return f, nil
}

func is(_ fs.FileInfo, err error) bool { return err == nil }

// hostSystem are the host's own system folders.
func hostSystem() (out []plan.Found, err error) {
	for _, dir := range plan.SystemFolders() {
		fi, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("look at %s: %w", dir, err)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(dir)
			if err != nil {
				return nil, fmt.Errorf("look at %s: %w", dir, err)
			}
			out = append(out, plan.Found{Path: dir, To: to})
		case fi.IsDir():
			out = append(out, plan.Found{Path: dir, Dir: true})
		}
	}
	return out, nil
}

// hostEtc is what a cloister on the host's own system has of its /etc.
func hostEtc() (out []plan.Found) {
	for _, dir := range sandbox.EtcFolders() {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
			out = append(out, plan.Found{Path: dir, Dir: true})
		}
	}
	for _, name := range append(sandbox.EtcFiles, "ssl/openssl.cnf") {
		file := "/etc/" + name
		fi, err := os.Stat(file)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		found := plan.Found{Path: file, Copied: fi.Size() <= maxCopied}
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(filepath.Join("/etc", to), "/usr/") ||
			strings.HasPrefix(to, "/usr/") {
			found = plan.Found{Path: file, To: to}
		}
		out = append(out, found)
	}
	return out
}

// bounds are of what the kernel counts for a person and all that they own together:
// so many user namespaces more, and of inotify half of what the host has for each cloister,
// so that editors and watchers outside go on when one takes all of its half; two that
// do may leave none.
func bounds(namespaces int) []plan.Bound {
	out := []plan.Bound{{Name: "max_user_namespaces", Value: namespaces}}
	for _, name := range []string{"instances", "watches"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
		if err != nil {
			continue // a kernel without inotify
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			out = append(out, plan.Bound{Name: "max_inotify_" + name, Value: (n + 1) / 2})
		}
	}
	return out
}

// pending is how many signals may wait for all that this user owns.
func pending() uint64 {
	var waiting unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &waiting); err != nil {
		return 0
	}
	return waiting.Cur
}
