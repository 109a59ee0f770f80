package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func af18() escape.Case {
	const sessions = 8
	return escape.Case{
		ID: "AF-18", Class: "host walk follows a swapped link",
		Attack: "exchange folders, git's among them, with links out of the project without end, while sessions start and end and the host looks",
		Source: "independent audit", Layers: []string{"openat2"}, Slow: 120,
		Host: between("", func(r *ruled) []escape.Finding {
			outside := r.base + "/outside"
			names := []string{"sub", "deep/sub", ".git/modules/m"}
			laid := r.host(newRepository + "; mkdir -p deep .git/modules .vscode; echo x >.vscode/tasks.json; git init -q " + outside + "; mkdir -p " + outside + "/.vscode " + outside +
				"/lib/deep; echo x >" + outside + "/.envrc; echo x >" + outside + "/lib/.envrc; echo x >" + outside + "/.vscode/tasks.json; echo x >" + outside + "/package.json; cp -r " + outside + "/.git/. " + outside)
			for _, name := range names {
				path := filepath.Join(r.project, name)
				if err := errors.Join(os.CopyFS(path, os.DirFS(outside)), os.Symlink(outside, path+"-away")); err != nil {
					return escape.NoHost("lay the folders", err)
				}
			}
			seen, err := opens(outside)
			if err != nil {
				return escape.NoHost("watch the folder outside", err)
			}
			defer unix.Close(seen)
			begun, swaps := 0, 0
			var last escape.Result
			for i := range sessions {
				stop := exchange(r.project, names, time.Duration(i*i*i*i)*time.Millisecond) // the last let a slow start through
				if res := r.run("true"); res.Status == 0 {
					begun++
				} else {
					last = res
				}
				own := strings.Join(append(r.variables(), r.w.Cloister), " ")
				r.host(own + " review --json; " + own + " project clean --dry-run; " + own + " list") // each may say no
				swaps += stop()
			}
			opened, rerr := drain(seen)
			defer exchange(r.project, names, time.Millisecond)()
			// What reads as most programs do is led out at once.
			followed := r.w.Until(patient, func() bool {
				_, _ = os.ReadFile(filepath.Join(r.project, "sub/.git/config"))
				got, err := drain(seen)
				return err == nil && len(got) > 0
			})
			return []escape.Finding{
				worked("the project is laid", laid),
				found("sessions run all the same", begun > 0, "%d of %d; %s", begun, sessions, last.Stderr),
				found("control: they were exchanged all the time", swaps > 10*sessions, "%d times", swaps),
				found("nothing outside the project was opened", rerr == nil && len(opened) == 0, "%v %q", rerr, opened),
				found("control: a reader that follows links is led out", followed, "it was not"),
			}
		}),
	}
}

// exchange changes folders of the project with links beside them, again and again until it
// is told to stop; then it says how often.
func exchange(project string, names []string, every time.Duration) (stop func() int) {
	end, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			for _, name := range names {
				path := filepath.Join(project, name)
				if unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, path+"-away", unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
			select {
			case <-end:
				done <- n
				return
			case <-time.After(every):
			}
		}
	}()
	return func() int { close(end); return <-done }
}

// opens watches a folder and all below it for what is opened there: inotify(7).
func opens(dir string) (int, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN)
		}
		return err
	})
	_, derr := drain(fd) // this walk's own
	return fd, errors.Join(err, derr)
}

// drain is what was opened since: names within watched folders, without the folders'.
func drain(fd int) ([]string, error) {
	var out []string
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			slices.Sort(out)
			return slices.Compact(out), nil
		}
		if err != nil {
			return out, fmt.Errorf("read what was opened: %w", err)
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			// struct inotify_event: the last of its four words is the length of the name.
			size := unix.SizeofInotifyEvent + int(rest[12]) + int(rest[13])<<8
			name := string(rest[unix.SizeofInotifyEvent:size])
			out = append(out, fmt.Sprintf("%d %s", rest[0], name[:max(0, indexNul(name))]))
			rest = rest[size:]
		}
	}
}

func indexNul(s string) int {
	for i := range len(s) {
		if s[i] == 0 {
			return i
		}
	}
	return len(s)
}
