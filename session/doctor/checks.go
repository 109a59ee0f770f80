package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"cloister/host/kernel"
	"cloister/hostexec"
	"cloister/internal/xdg"

	"golang.org/x/sys/unix"
)

// checkFolders looks at the four folders, and makes none of them.
func checkFolders(d xdg.Dirs) []Check {
	var out []Check
	for _, f := range []struct {
		id, title, dir string
		private        bool
	}{
		{"config-dir", "Configuration folder", d.Config, false},
		{"state-dir", "State folder", d.State, false},
		{"data-dir", "Data folder", d.Data, false},
		{"runtime-dir", "Runtime folder", d.Runtime, true},
	} {
		c := Check{ID: f.id, Title: f.title, Status: kernel.OK, Detail: f.dir}
		// Only reading is needed of the configuration.
		if problem, fix := checkFolder(f.dir, f.private, f.id != "config-dir"); problem != "" {
			c.Status, c.Detail, c.Fix = kernel.Fail, f.dir+": "+problem, fix
		} else if c.Status == kernel.OK && f.id == "state-dir" {
			c.Status, c.Detail, c.Fix = room(f.dir)
		}
		out = append(out, c)
	}
	return out
}

func checkFolder(dir string, private, writable bool) (problem, fix string) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !writable {
			return "", "" // no configuration means the defaults
		}
		above := existing(dir)
		if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Sprintf("cannot be made in %s: %v", above, err), "make it, with mode 0700 and you as its owner"
		}
		return "", ""
	}
	if err != nil {
		return err.Error(), ""
	}
	if info.Mode()&fs.ModeSymlink != 0 && !private {
		if info, err = os.Stat(dir); err != nil {
			return err.Error(), ""
		}
	}
	need := uint32(unix.R_OK | unix.X_OK)
	if writable {
		need |= unix.W_OK
	}
	switch {
	case !info.IsDir():
		return "not a folder", "move it away"
	case private && info.Mode().Perm()&0o077 != 0:
		return fmt.Sprintf("open to others (mode %04o)", info.Mode().Perm()), "chmod 700 " + dir
	}
	if err := unix.Access(dir, need); err != nil {
		return err.Error(), "give yourself the right to it, or point its XDG variable to a folder that you may write"
	}
	return "", ""
}

// existing is the nearest folder above that is there.
func existing(dir string) string {
	for {
		above := filepath.Dir(dir)
		if _, err := os.Stat(above); err == nil || above == dir {
			return above
		}
		dir = above
	}
}

// room reports whether the audit has space to grow.
func room(dir string) (status kernel.Status, detail, fix string) {
	if _, err := os.Stat(dir); err != nil {
		dir = existing(dir)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return kernel.Warn, dir + ": free space unknown: " + err.Error(), ""
	}
	free := s.Bavail * uint64(s.Bsize) >> 20
	detail = fmt.Sprintf("%s, %d MiB free", dir, free)
	if free < 64 {
		return kernel.Fail, detail, "make room: what cannot be recorded is refused"
	}
	return kernel.OK, detail, ""
}

// checkHostCommands makes a control group as a host command gets, and removes it.
func checkHostCommands() Check {
	c := Check{ID: "host-commands", Title: "Limits of host commands", Status: kernel.OK,
		Detail: "a control group each: memory, processes, processor time, an end of all"}
	group, _, err := hostexec.NewGroup("host-cloister-probe-"+strconv.Itoa(os.Getpid()), hostexec.Limits{PIDs: 1})
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		c.Status, c.Detail = kernel.Warn, "time and output are bounded, memory and processes are not: "+err.Error()
		c.Fix = "have the service manager delegate a cgroup to the guardian: systemd-run --user --scope -p Delegate=yes " +
			"cloister guardian start, or run as root"
	}
	return c
}
