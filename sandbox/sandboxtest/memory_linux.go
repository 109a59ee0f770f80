package sandboxtest

import (
	"bytes"
	"context"
	_ "embed"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest/echo"
)

// remembering is what a process does whose memory is kept: it counts, into its memory and a
// file, until it finds the file "go", and says then who it is.
//
//go:embed memory.txt
var remembering string

// keptMemory holds a driver that can keep a memory to what that is: memory and files of one
// moment, a parent that goes on with its connections, and a child that is another cloister.
func keptMemory(t *testing.T, h *Harness) {
	if _, ok := h.Driver.(sandbox.MemoryKeeper); !ok {
		return
	}
	for _, inMemory := range []bool{false, true} {
		if inMemory {
			h = New(t, h.Driver)
		}
		parent, child := GoOn(t, h, inMemory)
		if parent.Kernel == child.Kernel {
			t.Errorf("the kernel's random bytes are the same in parent and child: %s", child.Kernel)
		}
		if parent.OpenSSL == child.OpenSSL {
			t.Errorf("OpenSSL's random bytes are the same in parent and child: %s", child.OpenSSL)
		}
	}
}

// Drawn are the random bytes that a process drew after its memory was kept, or went on.
type Drawn struct{ Kernel, OpenSSL string }

// imageIn makes the files of an image, on the disk or in memory.
func imageIn(t *testing.T, dir string, inMemory bool) *sandbox.Image {
	t.Helper()
	image := &sandbox.Image{}
	for i := range sandbox.ImageFiles {
		name := "image" + strconv.Itoa(i)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
		if inMemory {
			var fd int
			fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
			f = os.NewFile(uintptr(fd), name)
		}
		if err != nil {
			t.Fatal(err)
		}
		image.Files = append(image.Files, f)
	}
	return image
}

// GoOn keeps the memory of a process, in files on the disk or in memory, has it go on in another box,
// and gives what each drew.
func GoOn(t *testing.T, h *Harness, inMemory bool) (ofParent, ofChild Drawn) {
	t.Helper()
	keeper := h.Driver.(sandbox.MemoryKeeper)
	child := New(t, h.Driver)
	image := imageIn(t, h.data, inMemory)
	defer image.Close()
	var spec sandbox.Spec
	parent := h.Run(t, Options{
		Arm:    echo.Into(t, io.Discard),
		Change: func(s *sandbox.Spec) { spec = *s },
		During: func(b sandbox.Box) {
			await(t, func() bool { return bytes.Count(readFile(filepath.Join(h.Project, "log")), []byte("\n")) > 20 })
			var moment []byte
			if err := keeper.SaveMemory(t.Context(), b.Handle(), spec, image, func() error {
				moment = readFile(filepath.Join(h.Project, "log"))
				return os.WriteFile(filepath.Join(child.Project, "log"), moment, 0o666)
			}); err != nil {
				t.Error(err)
				b.Close()
				return
			}
			await(t, func() bool { return len(readFile(filepath.Join(h.Project, "log"))) > len(moment) })
			h.Write(t, "go", "")
		},
	}, "python3", "-c", remembering)
	if parent.Err != nil || parent.Status.Code != 7 {
		t.Fatalf("the parent: %+v", parent)
	}
	saved := lastNumber(t, filepath.Join(child.Project, "log"))
	again := sandbox.Restored(keeper, image)
	defer again.Close()
	var armed, reset atomic.Bool
	var heard echo.Heard // of the child, at its gate
	var began time.Time
	h.again = again
	out := h.Run(t, Options{
		Arm: func(ctx context.Context, g sandbox.Gate) error {
			armed.Store(true)
			return echo.Into(t, &heard)(ctx, g)
		},
		Change: func(s *sandbox.Spec) {
			s.Name = "Child Box"
			s.Argv, s.Protect = []string{"false"}, nil // what is protected is the other project's
			for i := range s.Binds {                   // another place of the host, seen at the same place inside
				if string(s.Binds[i].Source) == h.Project {
					s.Binds[i].Source = sandbox.HostPath(child.Project)
				}
			}
		},
		During: func(b sandbox.Box) {
			at := filepath.Join(child.Project, "log")
			await(t, func() bool { return lastNumber(t, at) > saved })
			reset.Store(true)
			began = time.Now()
			child.Write(t, "go", "")
		},
	})
	h.again = nil
	if out.Err != nil || out.Status.Code != 7 || !armed.Load() || !reset.Load() {
		t.Fatalf("the child: %+v, armed %v", out, armed.Load())
	}
	whole := strings.Fields(string(readFile(filepath.Join(child.Project, "log"))))
	for i, n := range whole {
		if n != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the child's log is %s: files and memory are of two moments", i+1, n)
		}
	}
	was, is := strings.Fields(parent.Stdout), strings.Fields(out.Stdout)
	if len(was) != 8 || len(is) != 8 {
		t.Fatalf("parent %q, child %q, %q", parent.Stdout, out.Stdout, out.Stderr)
	}
	if clock, err := strconv.ParseFloat(is[7], 64); err != nil || clock < seconds(began) || clock > seconds(time.Now()) {
		t.Errorf("the child's clock is %s (%v), begun at %f", is[7], err, seconds(began))
	}
	if text := heard.String(); text != "z" {
		t.Errorf("the child's gate heard %q: what goes on a connection of the parent's is none of its", text)
	}
	for i, want := range []struct {
		what          string
		parent, child string
	}{
		{"host name", "test-box", "child-box"}, {"memory", "20971520", "20971520"},
		{"the old connection", "True", "False"}, {"a new connection", "True", "True"},
	} {
		if was[i] != want.parent || is[i] != want.child {
			t.Errorf("%s: parent %s, child %s", want.what, was[i], is[i])
		}
	}
	if was[6] != is[6] {
		t.Errorf("the process's number was %s and is %s", was[6], is[6])
	}
	return Drawn{was[4], was[5]}, Drawn{is[4], is[5]}
}

func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

func readFile(name string) []byte {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return text
}

func lastNumber(t testing.TB, name string) int {
	lines := strings.Fields(string(readFile(name)))
	if len(lines) == 0 {
		t.Fatalf("%s is empty", name)
	}
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
