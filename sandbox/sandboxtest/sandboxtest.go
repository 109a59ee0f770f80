// Package sandboxtest is the meaning of a driver, as tests.
//
// Run exercises a driver as a shim does and looks at what came of it on the
// host. A driver is one when Run passes. It holds no knowledge of any driver.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/sandbox"
	"cloister/sandbox/sandboxtest/back"
	"cloister/workspace"
	"cloister/workspace/obeyed"
)

// Harness is one project on the host and a driver to enclose it.
type Harness struct {
	Driver  sandbox.Driver
	Project string
	Home    string // the host user's, with canaries in it
	data    string
	differs []Difference
	again   sandbox.Begun // what start takes instead of the driver's own start
	// copies says that boxes are on another host: what a command does to the project is brought
	// back when it has ended, and nothing that the host does reaches it.
	copies bool
	last   sandbox.Spec // of the box that was started last
}

// A Difference is what a driver's kernel does otherwise than the host's, with no promise
// broken. A driver that has one names it, and its documentation says so.
type Difference string

// The differences.
const (
	// WatchesInside: file watching tells what happens inside alone, not what the host does.
	WatchesInside Difference = "file watching inside alone"
	// PipesInside: a named pipe that is made inside is none of the host's files.
	PipesInside Difference = "named pipes inside alone"
	// Niceness: any process may call itself more important, among the cloister's own.
	Niceness Difference = "priorities among its own"
	// InputOnce: a file that is a command's input is carried to it, so that it can be read once.
	InputOnce Difference = "input that is read once"
	// GateAlways: there is no cloister without a gate.
	GateAlways Difference = "a gate always"
	// StatusOfShell: a command's end is one number, as a shell has it, also where it could not be executed.
	StatusOfShell Difference = "a shell's status"
	// Attendants: the driver's processes inside are seen, with their words and sockets.
	Attendants Difference = "the driver's processes inside"
	// PipesBothWays: what the standard descriptors lead to can be opened in either direction.
	PipesBothWays Difference = "pipes open both ways"
)

func (h *Harness) differ(d Difference) bool { return slices.Contains(h.differs, d) }

// New makes a project in a folder that only this test uses.
func New(t testing.TB, d sandbox.Driver) *Harness {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Harness{Driver: d, Project: filepath.Join(base, "host home/pröject"), Home: filepath.Join(base, "host home"),
		data: filepath.Join(base, "data")}
	for _, dir := range []string{h.Project, filepath.Join(h.Home, ".ssh"), h.data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.Write(t, filepath.Join(h.Home, ".ssh/id_ed25519"), "canary-key")
	_, h.copies = d.(sandbox.Elsewhere)
	return h
}

// Write makes a file on the host.
func (h *Harness) Write(t testing.TB, path, text string) {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.Project, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Out is what a command left behind.
type Out struct {
	Status         sandbox.Status
	Stdout, Stderr string
	Err            error
}

// Options change a run.
type Options struct {
	Stdin  string
	Env    []string
	Change func(*sandbox.Spec)
	Arm    func(context.Context, sandbox.Gate) error
	Peers  func([]*os.File)
	During func(sandbox.Box)
	View   func(*workspace.Options)
}

// resolver knows what the suite's cloisters could write.
func (h *Harness) resolver(t testing.TB) *resolve.Resolver {
	t.Helper()
	places, err := taint.Read(filepath.Join(h.data, "register"))
	if err != nil {
		t.Fatal(err)
	}
	return resolve.New(places, os.Getuid())
}

// Run runs a command in the project's cloister.
func (h *Harness) Run(t testing.TB, o Options, argv ...string) Out {
	t.Helper()
	p, err := workspace.Find(h.Project)
	if err != nil {
		t.Fatal(err)
	}
	vo := workspace.Options{Host: h.resolver(t), Home: h.Home, Path: "/usr/bin:/bin", Data: h.data,
		Locks: filepath.Join(h.data, "locks"), KeepOut: []string{h.data}}
	own := h.layers(t, &vo)
	if o.View != nil {
		o.View(&vo)
	}
	view, err := workspace.Plan(p, vo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := view.Release(); err != nil {
			t.Error(err)
		}
	}()
	id := os.Geteuid()
	if id == 0 {
		id = 1000
	}
	s := sandbox.Spec{
		ID: "test-" + rand.Text(), Name: "Test Box", Argv: argv, Dir: view.Dir,
		Env:   append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + string(view.Home)}, o.Env...),
		User:  sandbox.User{ID: id, Name: "agent", Home: view.Home},
		Binds: view.Binds, Protect: view.Protect, Files: view.Files, Links: view.Links, Network: o.Arm != nil,
	}
	if o.Arm == nil && h.differ(GateAlways) {
		s.Network, o.Arm = true, shut
	}
	if o.Change != nil {
		o.Change(&s)
	}
	out := h.start(t, s, o)
	if own != nil && vo.Uppers.Project == own {
		up := filepath.Join(string(own.Store), own.Dir)
		runs, err := obeyed.In(h.Project, obeyed.Person{})
		if err == nil {
			err = back.Apply(t.Context(), h.Project, up, h.data, runs)
		}
		if err != nil {
			t.Errorf("bring back what changed: %v", err)
		}
	}
	return out
}

// layers gives a box on another host the way by which what it changes comes back; nil on this one.
func (h *Harness) layers(t testing.TB, o *workspace.Options) *sandbox.Upper {
	t.Helper()
	if !h.copies {
		return nil
	}
	store := filepath.Join(filepath.Dir(h.Home), "copies", rand.Text())
	for _, dir := range []string{"up", "work"} {
		if err := os.MkdirAll(filepath.Join(store, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	up := &sandbox.Upper{Store: sandbox.HostPath(store), Dir: "up", Work: "work"}
	o.Elsewhere, o.Overlay, o.Uppers = true, true, workspace.Uppers{Project: up}
	return up
}

// shut is a gate that nothing serves.
func shut(_ context.Context, g sandbox.Gate) error {
	g.Close()
	return nil
}

// in runs a script in a box, beside its command, and gives how it ended.
func (h *Harness) in(t testing.TB, b sandbox.Box, script string) int {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := h.last
	s.Argv = []string{"sh", "-c", script}
	e, err := h.Driver.Exec(t.Context(), b.Handle(), s, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		t.Error(err)
		return -1
	}
	status, err := e.Wait()
	if err != nil {
		t.Error(err)
		return -1
	}
	return status.ExitCode()
}

// awaitFile waits until the box's command has made a file in the project.
func (h *Harness) awaitFile(t testing.TB, b sandbox.Box, name string) {
	t.Helper()
	await(t, func() bool {
		if h.copies {
			return h.in(t, b, "test -e "+name) != 1
		}
		_, err := os.Stat(filepath.Join(h.Project, name))
		return err == nil
	})
}

// tell makes a file of the project that the box's command waits for.
func (h *Harness) tell(t testing.TB, b sandbox.Box, name string) {
	t.Helper()
	if !h.copies {
		h.Write(t, name, "")
	} else if h.in(t, b, "touch "+name) != 0 {
		t.Errorf("%s could not be made inside", name)
	}
}

func (h *Harness) start(t testing.TB, s sandbox.Spec, o Options) Out {
	t.Helper()
	h.last = s
	var out Out
	stdin, stdout, stderr := pipe(t), pipe(t), pipe(t)
	go func() {
		_, _ = io.WriteString(stdin.w, o.Stdin) // a command that reads nothing breaks the pipe
		stdin.w.Close()
	}()
	begin := h.Driver.Start
	if h.again != nil {
		begin = h.again.Start
	}
	b, err := begin(t.Context(), s,
		sandbox.Wiring{Stdin: stdin.r, Stdout: stdout.w, Stderr: stderr.w, Arm: o.Arm, Peers: o.Peers})
	stdin.r.Close()
	stdout.w.Close()
	stderr.w.Close()
	if err != nil {
		stdout.r.Close()
		stderr.r.Close()
		return Out{Err: err}
	}
	texts := make(chan [2]string, 1)
	go func() {
		errText := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(stderr.r)
			errText <- string(b)
		}()
		b, _ := io.ReadAll(stdout.r)
		texts <- [2]string{string(b), <-errText}
	}()
	if o.During != nil {
		o.During(b)
	}
	out.Status, out.Err = b.Wait()
	two := <-texts
	out.Stdout, out.Stderr = two[0], two[1]
	stdout.r.Close()
	stderr.r.Close()
	return out
}

// Script runs shell scripts, each in a cloister and a project of its own, and gives how it ended and what it wrote.
func Script(driver func() sandbox.Driver) func(t *testing.T, script string) (int, string) {
	return func(t *testing.T, script string) (int, string) {
		t.Helper()
		out := New(t, driver()).Run(t, Options{}, "sh", "-c", script)
		if out.Err != nil {
			t.Error(out.Err)
		}
		return out.Status.ExitCode(), out.Stdout + out.Stderr
	}
}

type ends struct{ r, w *os.File }

func pipe(t testing.TB) ends {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return ends{r, w}
}

// sh runs a script and requires that the driver could.
func (h *Harness) sh(t testing.TB, script string) Out {
	t.Helper()
	out := h.Run(t, Options{}, "sh", "-c", script)
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	return out
}

// Run tests a driver, one case after the other.
func Run(t *testing.T, newDriver func() sandbox.Driver, differs ...Difference) {
	cases(t, newDriver, false, differs)
}

// RunAtOnce tests a driver whose boxes are processes of their own, several cases at a time. An
// engine's boxes gain nothing by it: there the engine works as long.
func RunAtOnce(t *testing.T, newDriver func() sandbox.Driver, differs ...Difference) {
	cases(t, newDriver, true, differs)
}
