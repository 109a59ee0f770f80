package gvisor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/onhost"
	"cloister/sandbox/seccomp"
)

// Driver encloses with a kernel of its own.
type Driver struct {
	native *native.Driver
	o      Options
}

// Options are what the driver needs to know.
type Options struct {
	Instance string   // the folder of its sockets, which tells instances apart
	Folders  []string // where the kernel's program may lie, in order
	// Trusted gives a program's path without links, and refuses one that another user
	// or a payload could have changed. Nil takes every path as it is.
	Trusted func(path string) (string, error)
}

// New gives the driver of an instance.
func New(o Options) *Driver { return &Driver{native: native.New(o.Instance), o: o} }

// What this driver's boxes can besides.
var (
	_ sandbox.Dialer  = (*box)(nil)
	_ sandbox.Resizer = (*box)(nil)

	_ sandbox.MemoryKeeper = (*Driver)(nil)
	_ sandbox.SlowStarter  = (*Driver)(nil)
)

// StartWithin bounds a start: six programs are executed and a memory may be read, which native's
// bound of 10 s did not hold at a load of 51, once in some 90 forks.
func (*Driver) StartWithin() time.Duration { return time.Minute }

// Hold holds what runs in a box still.
func (*Driver) Hold(h sandbox.Handle) (thaw func() error, err error) { return onhost.Hold(h) }

// Name is "gvisor".
func (*Driver) Name() string { return "gvisor" }

// refuse says what this level cannot do for a Spec.
func refuse(s sandbox.Spec) error {
	for _, text := range append(append([]string{string(s.Dir)}, s.Argv...), s.Env...) {
		if !utf8.ValidString(text) {
			// The kernel's specification is JSON, in which other bytes would become others.
			name, _, _ := strings.Cut(text, "=")
			return &sandbox.Unsupported{Guarantee: "exact arguments",
				Reason: fmt.Sprintf("%q has bytes that are no UTF-8, which gVisor would change", name),
				Fix:    "use --isolation native, or take them out"}
		}
	}
	if len(s.Devices) > 0 {
		return &sandbox.Unsupported{Guarantee: "devices", Reason: "gVisor shows no device of the host, and " +
			strings.Join(s.Devices, ", ") + " was asked for", Fix: "use --isolation native"}
	}
	return nil
}

// thisMachine looks at the host.
func thisMachine() (machine, error) {
	var m machine
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("start gvisor: look at the memory: %w", err)
	}
	m.memory = int64(info.Totalram) * int64(info.Unit)
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &m.files); err != nil {
		return m, fmt.Errorf("start gvisor: look at limits: %w", err)
	}
	filter, err := seccomp.Filter(true)
	if err != nil {
		return m, fmt.Errorf("start gvisor: %w", err)
	}
	var text bytes.Buffer
	if err := binary.Write(&text, binary.NativeEndian, commandFilter(filter)); err != nil {
		return m, fmt.Errorf("start gvisor: %w", err)
	}
	m.filter = text.Bytes()
	return m, nil
}

// Start builds the enclosure, starts the kernel in it, and the command on that.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	if s.Permits.Any() {
		return nil, &sandbox.Unsupported{
			Guarantee: "lists of files and programs",
			Reason:    "start gvisor: Landlock holds no command of a kernel of its own", Fix: "use --isolation native",
		}
	}
	if len(s.Judged) > 0 || s.InKernel {
		return nil, &sandbox.Unsupported{
			Guarantee: "files and programs judged by the kernel",
			Reason:    "start gvisor: the host's kernel sees no file of a kernel of its own", Fix: "use --isolation native",
		}
	}
	start := func(w sandbox.Wiring, h native.Hosted, m machine, wired wiring) (sandbox.Box, error) {
		text, err := encoded(specification(s, m, wired))
		if err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		h.Files = []sandbox.File{{Path: "/bundle/config.json", Data: text, Mode: 0o444}}
		return d.native.StartHosted(ctx, s, w, h)
	}
	return d.run(ctx, s, w, way{mode: modeFirst}, start)
}

// Exec runs one more command on the kernel of an enclosure.
func (d *Driver) Exec(ctx context.Context, b sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	join := func(w sandbox.Wiring, h native.Hosted, m machine, wired wiring) (sandbox.Box, error) {
		text, err := encoded(process(s, m, modeJoin, wired))
		if err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		fd, err := unix.MemfdCreate("process", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		f := os.NewFile(uintptr(fd), "process")
		defer f.Close()
		if _, err := f.WriteAt(text, 0); err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		h.Pass = append(h.Pass, f)
		return d.native.ExecHosted(b, s, w, h)
	}
	return d.run(ctx, s, w, way{mode: modeJoin}, join)
}

// starts has the enclosure built, or joined.
type starts func(w sandbox.Wiring, h native.Hosted, m machine, wired wiring) (sandbox.Box, error)

// way is how a command comes to run: its mode, and the image that it goes on from, which it learns
// to be sound.
type way struct {
	mode  string
	image *sandbox.Image
	sound *sound
}

func (d *Driver) run(
	ctx context.Context, s sandbox.Spec, w sandbox.Wiring, by way, start starts,
) (sandbox.Box, error) {
	program, err := d.program()
	if err != nil {
		return nil, err
	}
	if err := refuse(s); err != nil {
		return nil, err
	}
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	wired, err := wire(w)
	if err != nil {
		return nil, err
	}
	if by.image != nil {
		if err := wired.shape(by.image.Shape); err != nil {
			wired.give()
			return nil, err
		}
	}
	r, err := newReports(by.mode)
	if err != nil {
		wired.give()
		return nil, err
	}
	first := filepath.Join(filepath.Dir(program), FirstName)
	h := native.Hosted{
		Program: sandbox.HostPath(program),
		Shown:   []sandbox.Bind{{Source: sandbox.HostPath(first), Target: firstPath, File: true}},
		Pass:    append([]*os.File{r.outside, r.inside}, wired.passed()...),
		Command: func(pass []int) (argv, env []string) { return command(by.mode, pass, len(wired.passed())) },
	}
	if by.image != nil {
		h.Pass = append(append(h.Pass, by.image.Files...), by.sound.said)
		plain, files := h.Command, len(by.image.Files)
		h.Command = func(pass []int) (argv, env []string) {
			own := len(pass) - files - 1
			argv, env = plain(pass[:own])
			return append(argv, imageWord(pass[own:own+files]), fmt.Sprintf("--sound=%d", pass[own+files])), env
		}
	}
	std := wired.std
	b, err := start(sandbox.Wiring{Stdin: std[0], Stdout: std[1], Stderr: std[2], Arm: w.Arm, Heard: w.Heard}, h, m, wired)
	r.given()
	if err != nil {
		r.close()
		wired.give()
		if e, ok := errors.AsType[*sandbox.ExecError](err); ok {
			return nil, lacking(fmt.Sprintf("%s cannot be executed: %v", program, e.Err))
		}
		return nil, err
	}
	wired.given()
	return attach(ctx, b, r, wired, s, program, by.sound)
}

// program finds the kernel's program, and refuses one that another user could have changed.
func (d *Driver) program() (string, error) {
	program, err := find(d.o.Folders)
	if err != nil || d.o.Trusted == nil {
		return program, err
	}
	if program, err = d.o.Trusted(program); err != nil {
		return "", lacking(err.Error())
	}
	first := filepath.Join(filepath.Dir(program), FirstName)
	if real, err := d.o.Trusted(first); err != nil {
		return "", lacking(err.Error())
	} else if real != first {
		return "", lacking(first + " is a link to " + real + ": it must lie beside " + program)
	}
	return program, nil
}

// places are those of runsc's flags that say where its own files lie in a box.
var places = []string{
	"--root=" + native.StatePath + "/c", "--log=" + native.StatePath + "/log", "--log-format=json",
	"--panic-log=" + native.StatePath + "/panic",
}

// command is how the kernel's program is called. It gets the two ends for reports, what
// lies aside and, where it joins, the process.
func command(mode string, pass []int, aside int) (argv, env []string) {
	argv = append(append([]string{ProgramName}, places...), flags...)
	word := map[string]string{modeFirst: "box", modeJoin: "more"}[mode]
	argv = append(argv, word, "--protocol="+Protocol, "--report="+strconv.Itoa(pass[0]),
		fmt.Sprintf("--pass=%d:%d", pass[1], firstAside-1))
	for i := range aside {
		argv = append(argv, fmt.Sprintf("--pass=%d:%d", pass[2+i], firstAside+i))
	}
	if mode == modeJoin {
		argv = append(argv, "--process="+strconv.Itoa(pass[len(pass)-1]))
	}
	return argv, []string{"PATH=/"}
}
