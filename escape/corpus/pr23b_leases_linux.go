package corpus

import (
	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr23b() escape.Case {
	lease := func(path string, flags int, kind uintptr) func() error {
		return func() error {
			fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETLEASE, kind)
			if errno != 0 {
				return errno
			}
			return nil
		}
	}
	return escape.Case{
		ID: "PR-23b", Class: "leases", Attack: "lease files of the project: each program of the host that opens one, the guardian too, waits for 45 seconds then, as often as it tries",
		Source: "own corpus: fcntl(2), F_SETLEASE", Layers: []string{"seccomp"},
		Tries: func(in escape.Inside) []escape.Try {
			held := []error{unix.EPERM}
			if in.Level == escape.GVisor {
				held = append(held, unix.EINVAL) // its kernel has no leases, with or without the filter
			}
			return []escape.Try{
				{Name: "a new file, for writing", Do: lease(in.Project+"/pr23b", unix.O_CREAT|unix.O_RDWR, unix.F_WRLCK), Held: held},
				{Name: "main.go, for writing", Do: lease(in.Project+"/main.go", unix.O_RDONLY, unix.F_WRLCK), Held: held},
				{Name: "main.go, for reading", Do: lease(in.Project+"/main.go", unix.O_RDONLY, unix.F_RDLCK), Held: held},
				{Name: "git's index", Do: lease(in.Project+"/.git/index", unix.O_RDWR, unix.F_WRLCK), Held: held},
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			defer clean(w.Project + "/pr23b")
			res := w.Outcome(nil, "sh", "-c", "flock main.go true && echo locked")
			return []escape.Finding{found("control: locks that only those heed who ask are there", res.Status == 0 && res.Stdout == "locked\n", "%d %s%s", res.Status, res.Stdout, res.Stderr)}
		},
	}
}
