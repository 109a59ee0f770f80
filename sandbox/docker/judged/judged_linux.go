package judged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/sandbox/remount"
)

// Wanted reports whether the kernel's judge is what keeps or tells of files and programs.
func Wanted(s sandbox.Spec) bool { return s.InKernel || len(s.Judged) > 0 }

// Refuse refuses a Spec of which something would be kept by nothing.
func Refuse(s sandbox.Spec, w sandbox.Wiring) error {
	switch {
	case Wanted(s) && w.Judge == nil:
		return unjudged("nothing judges them")
	case s.Permits.Any() && !s.InKernel:
		return &sandbox.Unsupported{
			Guarantee: "lists of files and programs",
			Reason:    "start docker: in containers the kernel's judge alone keeps them, and it is not there",
			Fix:       "see cloister doctor, or use --isolation native",
		}
	}
	return nil
}

// unjudged refuses a container of which the kernel's judge would not be asked.
func unjudged(reason string) error {
	return &sandbox.Unsupported{
		Guarantee: "files and programs judged by the kernel", Reason: "start docker: " + reason,
		Fix: "run as root, with an engine that gives each container a control group of version 2; start it anew",
	}
}

// Container is one that runs nothing but the first process and the one that becomes the command.
type Container struct {
	PID int    // of the first process
	ID  string // as the engine names it
}

// Begin has the kernel judge everything in a container's control group. lost is called once if it is
// not judged any more, when all inside was ended.
func Begin(ctx context.Context, s sandbox.Spec, w sandbox.Wiring, c Container, lost func(error)) (io.Closer, error) {
	group, err := groupOf(c)
	if err != nil {
		return nil, unjudged(err.Error())
	}
	if err := judge.Lasting(c.PID, s); err != nil {
		return nil, err
	}
	seen := s.Root.Dir != "" // by who made the view
	s.Root.Dir = sandbox.HostPath(c.root())
	if s.Root.Dir == judge.Nowhere && !seen {
		if err := unseen(s); err != nil {
			return nil, err
		}
	}
	return w.Judge(ctx, group, c.PID, s, func(why error) {
		lost(errors.Join(why, end(group)))
	})
}

// end ends everything in a group that stands still. Then it is thawed, since engines do not remove what does:
// whatever has a signal to die by executes nothing any more. The kernel has it since 5.14; elsewhere all stands still
// until the engine ends it.
func end(group string) error {
	err := cgroup.Set(filepath.Join(group, "cgroup.kill"), "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // or the group has gone meanwhile
	}
	if err == nil {
		err = cgroup.Set(filepath.Join(group, "cgroup.freeze"), "0")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("end the container: %w", err)
	}
	return nil
}

// Kept says why a command that enters the container of a process is not judged; nil where it is.
func Kept(pid int) error {
	at, err := cgroup.PathOf(pid)
	if err != nil {
		return unjudged(err.Error())
	}
	for ; at != "/" && at != "."; at = filepath.Dir(at) {
		group := judge.Kept(filepath.Join(cgroup.Root, at))
		if group == nil {
			return nil
		}
		err = cmp.Or(err, group)
	}
	return cmp.Or(err, unjudged("the container is in no control group of its own"))
}

// groupOf is the folder of the control group that a container has of its own: the topmost that is called
// after it. The engine has what it executes in there in it as well, or in one below.
func groupOf(c Container) (string, error) {
	at, err := cgroup.PathOf(c.PID)
	if err != nil {
		return "", err
	}
	parts := strings.Split(at, "/")
	own := slices.IndexFunc(parts, func(part string) bool { return c.ID != "" && strings.Contains(part, c.ID) })
	if own < 0 {
		return "", fmt.Errorf("the engine gave the container no control group of its own: it is in %s", at)
	}
	dir := filepath.Join(append([]string{cgroup.Root}, parts[:own+1]...)...)
	return dir, alone(dir, c.PID)
}

// alone refuses a control group that has other processes than those of a container.
func alone(dir string, pid int) error {
	var space, own unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/ns/pid", &space); err != nil {
		return err
	}
	found := false
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != "cgroup.procs" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for one := range strings.FieldsSeq(string(text)) {
			err := unix.Stat("/proc/"+one+"/ns/pid", &own)
			if err == nil && own.Ino != space.Ino || one == "0" {
				return fmt.Errorf("process %s in %s is none of the container's", one, filepath.Dir(name))
			}
			found = found || one == strconv.Itoa(pid)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s is not the container's control group as this process sees it", dir)
	}
	return err
}

// root is where this process sees the root of a container's view, for what the view covers in it: engines mount
// it on the host first.
func (c Container) root() string {
	var theirs unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(c.PID)+"/root/.", &theirs) != nil {
		return judge.Nowhere
	}
	mountinfo, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return judge.Nowhere
	}
	defer mountinfo.Close()
	return mounted(mountinfo, theirs)
}

// mounted is where a list of mounts has a folder.
func mounted(mountinfo *os.File, folder unix.Stat_t) string {
	list, err := remount.Read(mountinfo)
	if err != nil {
		return judge.Nowhere
	}
	var here unix.Stat_t
	for _, m := range list {
		// What is of another file system is not looked at: it may not answer.
		if m.Device == folder.Dev && unix.Stat(m.At, &here) == nil && here.Dev == folder.Dev && here.Ino == folder.Ino {
			return m.At
		}
	}
	return judge.Nowhere
}

// unseen refuses a rule of an image whose files neither the view nor the kernel's judge could find.
func unseen(s sandbox.Spec) error {
	for _, j := range s.Judged {
		shown := slices.ContainsFunc(s.Binds, func(b sandbox.Bind) bool {
			return realpath.Inside(string(j.Path), string(b.Target))
		})
		if j.Covered && !shown {
			return &sandbox.Unsupported{
				Guarantee: "the rule " + j.Rule,
				Reason:    fmt.Sprintf("start docker: the engine mounts the image where %s is not seen", j.Path),
				Fix:       "use an image of cloister image list, or take the statement out",
			}
		}
	}
	return nil
}

// Guarantee reports whether the kernel judges containers of this process, in native's words.
func Guarantee() sandbox.Guarantee { return judge.Guarantee(judge.AvailableToEngine()) }
