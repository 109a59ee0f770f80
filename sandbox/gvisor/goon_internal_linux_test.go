package gvisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/native"
)

// tale is what happened in the order in which it did.
type tale struct {
	mu     sync.Mutex
	steps  []string
	kernel sync.WaitGroup
}

func (t *tale) add(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, step)
}

// enclosure stands for native's, with a kernel in it that says its lines.
type enclosure struct {
	gone chan struct{}
	once sync.Once
}

func (*enclosure) Handle() sandbox.Handle              { return "" }
func (*enclosure) Signal(os.Signal) error              { return nil }
func (e *enclosure) Wait() (s sandbox.Status, _ error) { <-e.gone; return s, nil }
func (e *enclosure) Close() error {
	e.once.Do(func() { close(e.gone) })
	return nil
}

// saying says what the program says that goes on from an image, from the moment its enclosure has the gate on.
func (t *tale) saying(says ...string) starts {
	return func(w sandbox.Wiring, h native.Hosted, _ machine, _ wiring) (sandbox.Box, error) {
		copied := func(f *os.File) *os.File {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				panic(err)
			}
			return os.NewFile(uintptr(fd), "copy")
		}
		report, sound := copied(h.Pass[0]), copied(h.Pass[len(h.Pass)-1])
		if err := w.Arm(context.Background(), sandbox.Gate{}); err != nil {
			return nil, err
		}
		e := &enclosure{gone: make(chan struct{})}
		t.kernel.Go(func() {
			defer e.Close()
			defer report.Close()
			defer sound.Close()
			for _, line := range says {
				t.add(line)
				_, _ = io.WriteString(report, line+"\n")
				if line != "waits" {
					continue
				}
				if n, _ := sound.Read(make([]byte, 1)); n == 0 {
					t.add("refused")
					_, _ = io.WriteString(report, "error the memory was not found sound\n")
					return
				}
				t.add("restored")
			}
			<-e.gone
		})
		return e, nil
	}
}

const hello = "hello " + Protocol + " gvisor " + Pin

// goesOn has a driver go on from an image in a box whose kernel says lines, and tells what happened.
// by is the driver's own way, or one that leaves something out.
func goesOn(
	t *testing.T, sound error, says []string,
	by func(*Driver, context.Context, sandbox.Spec, sandbox.Wiring, *sandbox.Image, starts) (sandbox.Box, error),
) (steps []string, err error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{ProgramName, FirstName} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	told := &tale{}
	image := &sandbox.Image{Shape: "false - " + keptBy, Sound: sync.OnceValue(func() error {
		told.add("looked at")
		return sound
	})}
	for range sandbox.ImageFiles {
		f, err := os.CreateTemp(dir, "image")
		if err != nil {
			t.Fatal(err)
		}
		image.Files = append(image.Files, f)
	}
	defer image.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	w := sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null, Arm: func(context.Context, sandbox.Gate) error {
		told.add("gate open")
		return nil
	}}
	d := New(Options{Instance: dir, Folders: []string{dir}})
	b, err := by(d, t.Context(), sandbox.Spec{Name: "child", Argv: []string{"x"}}, w, image, told.saying(says...))
	if err == nil {
		err = b.Close()
	}
	told.kernel.Wait()
	return slices.Clone(told.steps), err
}

// TestGateIsShut: nothing serves a child's gate before it has said who it is, and no byte of an image comes into
// a sandbox before it is known to be as it was kept.
func TestGateIsShut(t *testing.T) {
	for what, c := range map[string]struct {
		sound error
		says  []string
		want  []string
		err   string
	}{
		"in order": {
			says: []string{hello, "waits", "identity child"},
			want: []string{hello, "waits", "looked at", "restored", "identity child", "gate open"},
		},
		"a changed image": {
			sound: errors.New("was changed"), says: []string{hello, "waits", "identity child"},
			want: []string{hello, "waits", "looked at", "refused"}, err: "was changed",
		},
		"another name": {
			says: []string{hello, "waits", "identity parent"},
			want: []string{hello, "waits", "looked at", "restored", "identity parent"},
			err:  `takes itself for "parent", and is "child"`,
		},
		"started, and no name": {
			says: []string{hello, "started", "waits", "started", "identity parent"},
			want: []string{hello, "started", "waits", "looked at", "restored", "started", "identity parent"},
			err:  `takes itself for "parent", and is "child"`,
		},
		"started alone": {
			says: []string{hello, "waits", "started", "error lost"},
			want: []string{hello, "waits", "looked at", "restored", "started", "error lost"}, err: "lost",
		},
		"an error": {
			says: []string{hello, "waits", "error lost"},
			want: []string{hello, "waits", "looked at", "restored", "error lost"}, err: "lost",
		},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := goesOn(t, c.sound, c.says, (*Driver).goOn)
			if !slices.Equal(got, c.want) {
				t.Errorf("it went\n%q, want\n%q", got, c.want)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}

// TestGateIsShutByItsLayer: with the gate's sockets given on at once the same story is another one, so that
// the test above fails where the order is broken.
func TestGateIsShutByItsLayer(t *testing.T) {
	open := func(
		d *Driver, ctx context.Context, s sandbox.Spec, w sandbox.Wiring, i *sandbox.Image, start starts,
	) (sandbox.Box, error) {
		said, word, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer said.Close()
		return d.run(ctx, s, w, way{modeFirst, i, &sound{i, said, word}}, start)
	}
	got, err := goesOn(t, nil, []string{hello, "waits", "identity parent"}, open)
	if err == nil || len(got) == 0 || got[0] != "gate open" {
		t.Errorf("without its layer the gate opens not at once: %q, %v", got, err)
	}
}
