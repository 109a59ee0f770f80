package gvisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/streams"
)

// modeSave is the way of the program that keeps a box's memory.
const modeSave = "save"

// restoredMark is a variable of the specification of a box that goes on from an image
// (kernel/forkid.go). No process inside sees it.
const restoredMark = "CLOISTER_RESTORED=1"

// keptBy is who wrote an image: no other reads it.
const keptBy = Pin + "/" + Protocol

// imageWord names the image's files to the kernel's program.
func imageWord(fds []int) string {
	var words []string
	for _, fd := range fds {
		words = append(words, strconv.Itoa(fd))
	}
	return "--image=" + strings.Join(words, ":")
}

// SaveMemory writes the memory of a box to an image. The box goes on whatever becomes of
// this process: the program that holds it still ends by the end of a pipe.
func (d *Driver) SaveMemory(
	ctx context.Context, of sandbox.Handle, s sandbox.Spec, i *sandbox.Image, still func() error,
) (err error) {
	program, err := d.program()
	if err != nil {
		return err
	}
	if err := makeRoom(of, s, i.Files); err != nil {
		return fmt.Errorf("save memory: %w", err)
	}
	until, hold, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("save memory: %w", err)
	}
	letGo := sync.OnceFunc(func() { hold.Close() })
	defer letGo()
	r, err := newReports(modeSave)
	if err != nil {
		until.Close()
		return err
	}
	defer r.close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("save memory: %w", err)
	}
	defer null.Close()
	h := native.Hosted{
		Program: sandbox.HostPath(program), Outlives: true,
		Pass: append([]*os.File{r.outside, until}, i.Files...),
		Command: func(pass []int) (argv, env []string) {
			argv = append(append([]string{ProgramName}, places...), flags...)
			return append(argv, modeSave, "--protocol="+Protocol, fmt.Sprintf("--report=%d", pass[0]),
				fmt.Sprintf("--until=%d", pass[1]), imageWord(pass[2:])), []string{"PATH=/"}
		},
	}
	box, err := d.native.ExecHosted(of, s, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null}, h)
	r.given()
	until.Close()
	if err != nil {
		return fmt.Errorf("save memory: %w", err)
	}
	err = follow(ctx, r, i, still, letGo)
	letGo()
	_, waited := box.Wait()
	return errors.Join(err, waited, box.Close())
}

// makeRoom makes room in files in memory for what the sandbox of a box with a limit is about to write there. Pages that
// are there already stay counted where this process is; those that the sandbox makes would count towards its limit,
// and the kernel would end the box where that is reached.
func makeRoom(of sandbox.Handle, s sandbox.Spec, files []*os.File) error {
	if s.Limits.Memory == 0 {
		return nil
	}
	group, err := native.GroupOf(of, s.ID)
	if err != nil || group == nil {
		return err
	}
	has, err := group.SharedMemory() // what the programs inside have, with what they made files of in memory
	if err != nil {
		return err
	}
	const slack = 8 << 20 // it may grow meanwhile
	for n, f := range files {
		room := has/8 + slack
		if n == len(files)-1 { // the pages
			room += has
		}
		if !streams.Memory(int(f.Fd())) {
			continue
		}
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, room); err != nil {
			return fmt.Errorf("reserve %d MiB: %w", room>>20, err)
		}
	}
	return nil
}

// follow listens to the program that saves, has still done while nothing moves, and lets the
// box go on when both are done.
func follow(ctx context.Context, r *reports, i *sandbox.Image, still func() error, letGo func()) error {
	// A caller that gives up waits no longer for the pages than the sandbox does.
	defer context.AfterFunc(ctx, letGo)()
	done := make(chan error, 1)
	begun, ended := false, false
	var failed error
	in := bufio.NewScanner(r.hear[0])
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "hello":
			if want := Protocol + " gvisor " + Pin; rest != want {
				failed = lacking(fmt.Sprintf("the program is of another version: %q, %q is needed", rest, want))
			}
		case "shape":
			i.Shape = rest + " " + keptBy
		case "process":
			pid, path, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(pid)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("save memory: %q was reported", in.Text()))
			}
			i.Programs = append(i.Programs, sandbox.Program{PID: n, Path: path})
		case "started":
			begun = true
			go func() { done <- still() }()
		case "saved":
			failed = errors.Join(failed, <-done)
			begun = false
			letGo()
		case "end":
			ended = true
		case "error":
			said, _, _ := strings.Cut(rest, ": goroutine ") // what gVisor cannot keep it says with a trace
			failed = errors.Join(failed, fmt.Errorf("save memory: %s", said))
		}
	}
	if begun {
		failed = errors.Join(failed, <-done)
	}
	if failed == nil && !ended {
		failed = errors.New("save memory: the cloister ended meanwhile")
	}
	return errors.Join(failed, ctx.Err())
}

// RestoreMemory starts a box of an image. It is built while the image is still looked at, and the guardian
// gets the gate's sockets once the box goes on as who it is: until then no process serves them.
func (d *Driver) RestoreMemory(
	ctx context.Context, s sandbox.Spec, w sandbox.Wiring, i *sandbox.Image,
) (sandbox.Box, error) {
	start := func(w sandbox.Wiring, h native.Hosted, m machine, wired wiring) (sandbox.Box, error) {
		o := specification(s, m, wired)
		o.Process.Env = append(slices.Clip(o.Process.Env), restoredMark)
		text, err := encoded(o)
		if err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		h.Files = []sandbox.File{{Path: "/bundle/config.json", Data: text, Mode: 0o444}}
		return d.native.StartHosted(ctx, s, w, h)
	}
	b, err := d.goOn(ctx, s, w, i, start)
	if err != nil {
		return nil, err
	}
	// The sandbox reads by descriptors of its own. One of a decrypted image keeps all of that in memory.
	if err := i.Close(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (d *Driver) goOn(
	ctx context.Context, s sandbox.Spec, w sandbox.Wiring, i *sandbox.Image, start starts,
) (sandbox.Box, error) {
	for _, f := range i.Files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("start gvisor: read the image: %w", err)
		}
	}
	said, word, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start gvisor: %w", err)
	}
	defer word.Close()
	defer said.Close()
	open := shut(&w)
	b, err := d.run(ctx, s, w, way{modeFirst, i, &sound{i, said, word}}, start)
	return open(ctx, b, err)
}

// shut keeps a gate's sockets from the guardian until open has a box that goes on as who it is. A
// box that came to nothing takes them along.
func shut(w *sandbox.Wiring) (open func(context.Context, sandbox.Box, error) (sandbox.Box, error)) {
	var gate *sandbox.Gate
	arm := w.Arm
	w.Arm = func(_ context.Context, g sandbox.Gate) error {
		gate = &g
		return nil
	}
	return func(ctx context.Context, b sandbox.Box, err error) (sandbox.Box, error) {
		switch {
		case gate == nil:
			return b, err
		case err != nil:
			gate.Close()
			return nil, err
		}
		if err := arm(ctx, *gate); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return b, nil
	}
}

// sound is how a box that waits learns that its image is as it was kept.
type sound struct {
	image *sandbox.Image
	said  *os.File // the box's end
	word  *os.File
}

// tell waits until that is known. An image that is not has its box end where it waits.
func (s *sound) tell() error {
	err := s.image.Known()
	if err == nil {
		_, err = s.word.Write([]byte{1})
	}
	return errors.Join(err, s.word.Close())
}
