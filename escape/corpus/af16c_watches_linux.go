package corpus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// watched is what the witness inside watches, and locked what it locks.
const watched, locked = "/usr/bin", "/usr/bin/env"

func af16c() escape.Case {
	return escape.Case{
		ID: "AF-16c", Class: "watches and locks of shown folders",
		Attack: "watch the folder of programs for what the host runs, and lock a program there against it and against other cloisters",
		Source: "independent audit; docs/decisions/0059", Layers: []string{"read-only system", "image"},
		Host: func(w *escape.World) []escape.Finding {
			ready, over := w.Project+"/af16c-ready", w.Project+"/af16c-over"
			defer clean(ready)
			defer clean(over)
			inside := make(chan escape.Result, 1)
			go func() { inside <- w.Outcome([]string{"--expose", w.Self}, w.Self, "witness", ready, over) }()
			begun := w.Until(patient, func() bool { return exists(ready) })
			host := func(script string) escape.Result {
				res, err := w.Exec("sh", "-c", script)
				if err != nil {
					res.Status, res.Stderr = -1, err.Error()
				}
				return res
			}
			ran := host(locked + " true && comm /dev/null /dev/null")
			asked := host("flock -n " + locked + " true")
			wrote := os.WriteFile(over, nil, 0o600)
			res := <-inside
			var st unix.Stat_t
			err := errors.Join(wrote, unix.Stat(locked, &st))
			shared := strings.Contains(res.Stdout, fmt.Sprintf("inode %d %d\n", st.Dev, st.Ino))
			saw := strings.Contains(res.Stdout, "saw comm\n")
			out := []escape.Finding{
				found("a witness is inside", begun && err == nil && res.Status == 0, "%v %d %s", err, res.Status, res.Stderr),
				found("what it locks the host runs all the same", ran.Status == 0, "%d %s", ran.Status, ran.Stderr),
				found("control: it holds a lock", strings.Contains(res.Stdout, "lock held\n"), "%s", res.Stdout),
				found("control: it sees what is run inside", strings.Contains(res.Stdout, "saw env\n"), "%s", res.Stdout),
			}
			if w.Kind.Image != "" {
				out = append(out, found("an image has files of its own", !shared, "%s", res.Stdout))
			}
			if shared {
				// What is not promised, as long as it is so: see the decision.
				return append(out, found("control: the host's own file is locked, by its inode", asked.Status == 1, "%d %s", asked.Status, asked.Stderr),
					found("control: and what the host runs there is seen, by its name", saw, "%s", res.Stdout))
			}
			return append(out, found("the host is given the lock", asked.Status == 0, "%d %s", asked.Status, asked.Stderr),
				found("nothing that the host runs is seen", !saw, "%s", res.Stdout))
		},
	}
}

// Witness watches a folder of programs and locks one of them, from when ready is there until
// over is, and tells what it saw.
func Witness(ctx context.Context, ready, over string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, watched, unix.IN_OPEN); err != nil {
		return err
	}
	f, err := os.Open(locked)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.Fstat(int(f.Fd()), &st)); err != nil {
		return err
	}
	fmt.Printf("inode %d %d\n", st.Dev, st.Ino)
	other, err := os.Open(locked)
	if err != nil {
		return err
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		fmt.Println("lock held")
	}
	if err := exec.CommandContext(ctx, locked, "true").Run(); err != nil {
		return err
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return err
	}
	saw := map[string]bool{}
	for ended := false; !ended; {
		_, err := os.Lstat(over)
		if ended = !errors.Is(err, fs.ErrNotExist); !ended {
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a file is what ends it
		}
		for _, name := range names(fd) { // all the while: the queue has a bound
			if !saw[name] {
				saw[name] = true
				fmt.Println("saw " + name)
			}
		}
	}
	return nil
}

// names are those of the events that wait.
func names(fd int) (out []string) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return out // EAGAIN: that is all
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			size := int(binary.NativeEndian.Uint32(buf[at+12:])) // the last of four words
			end := at + unix.SizeofInotifyEvent + size
			out = append(out, strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:end]), "\x00"))
			at = end
		}
	}
}
