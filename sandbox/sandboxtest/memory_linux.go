package sandboxtest

import (
	"bytes"
	"context"
	_ "embed"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/sandbox"
)

// remembering is what a process does whose memory is kept: it counts, into its memory and a
// file, until it finds the file "go", and says then who it is.
//
//go:embed memory.txt
var remembering string

// keptMemory holds a driver that can keep a memory to what that is: memory and files of one
// moment, a parent that goes on with its connections, and a child that is another cloister.
func keptMemory(t *testing.T, h *Harness) {
	keeper, ok := h.Driver.(sandbox.MemoryKeeper)
	if !ok {
		return
	}
	child := New(t, h.Driver)
	image := &sandbox.Image{}
	for i := range image.Files {
		f, err := os.OpenFile(filepath.Join(h.data, "image"+strconv.Itoa(i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		image.Files[i] = f
	}
	defer image.Close()
	var spec sandbox.Spec
	parent := h.Run(t, Options{
		Arm:    echoes(t),
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
	h.again = again
	out := h.Run(t, Options{
		Arm: func(ctx context.Context, g sandbox.Gate) error {
			armed.Store(true)
			return echoes(t)(ctx, g)
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
	if len(was) != 7 || len(is) != 7 {
		t.Fatalf("parent %q, child %q, %q", parent.Stdout, out.Stdout, out.Stderr)
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
	for i, what := range map[int]string{4: "the kernel's random bytes", 5: "OpenSSL's random bytes"} {
		if was[i] == is[i] {
			t.Errorf("%s are the same in parent and child: %s", what, is[i])
		}
	}
	if was[6] != is[6] {
		t.Errorf("the process's number was %s and is %s", was[6], is[6])
	}
}

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

// echoes serves the gate: what comes goes back.
func echoes(t *testing.T) func(context.Context, sandbox.Gate) error {
	return func(_ context.Context, g sandbox.Gate) error {
		defer g.Close()
		l, err := net.FileListener(g.TCP4)
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
				go func() { _, _ = io.Copy(c, c) }()
			}
		}()
		return nil
	}
}
