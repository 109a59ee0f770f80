package freeze_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/freeze"
)

// As is how this program runs inside: as the first of a namespace, or as what it is to hold.
const as = "CLOISTER_TEST_FREEZE"

func init() {
	switch how := os.Getenv(as); how {
	case "":
	case "first":
		c := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
		c.Env = []string{as + "=" + os.Args[2]}
		if err := c.Start(); err != nil {
			panic(err)
		}
		for os.Args[2] == "something lets it go on" { // as a timer that it set before would
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // so that it is at rest between
			_ = c.Process.Signal(unix.SIGCONT)
		}
		_ = c.Wait() // it is killed with the namespace
		os.Exit(0)
	default:
		payload(how, os.Args[1])
	}
}

// payload counts in a file for as long as it runs.
func payload(how, file string) {
	runtime.LockOSThread() // an init function has the process's first thread
	go func() {
		for i := uint64(1); ; i++ {
			if err := os.WriteFile(file, binary.LittleEndian.AppendUint64(nil, i), 0o600); err != nil {
				panic(err)
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // as a payload does
		}
	}()
	if how == "its first thread ended" {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	select {}
}

// count is how far a payload counted.
func count(file string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil || len(text) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(text)
}

// grows waits until a payload counts further.
func grows(t *testing.T, file string) {
	t.Helper()
	for from, end := count(file), time.Now().Add(20*time.Second); ; {
		if now := count(file); now > from && from > 0 {
			return
		} else if from == 0 {
			from = now
		}
		if time.Now().After(end) {
			t.Fatal("the payload does not run")
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // no event announces that it ran
	}
}

// What is held still does not run, whatever it did before; what goes on by itself is known.
func TestHeldStill(t *testing.T) {
	for _, c := range []struct {
		how  string
		runs bool
	}{{"calm", false}, {"its first thread ended", false}, {"something lets it go on", true}} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "count")
			first := exec.CommandContext(t.Context(), "/proc/self/exe", file, c.how)
			first.Env = []string{as + "=first"}
			first.Stderr = os.Stderr
			first.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = first.Process.Kill()
				_ = first.Wait() // it was killed
			})
			grows(t, file)
			thaw, err := freeze.Processes(first.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if c.runs {
				grows(t, file) // the control: it does go on
			} else {
				was := count(file)
				time.Sleep(200 * time.Millisecond) //nolint:forbidigo // what must not happen has time to
				if now := count(file); now != was {
					t.Errorf("it counted from %d to %d while it was held still", was, now)
				}
			}
			want := error(nil)
			if c.runs {
				want = freeze.ErrRan
			}
			if err := thaw(); !errors.Is(err, want) || err == nil != (want == nil) {
				t.Error(fmt.Errorf("thaw says %w, want %w", err, want))
			}
			grows(t, file)
		})
	}
}
