package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"cloister/api"
	"cloister/internal/xdg"
	"cloister/session"
)

// detach starts the same command again as a process of its own, with more flags,
// and waits until its command runs. Its output goes to a log.
func (a *app) detach(ctx context.Context, verb string, flags ...string) (readyWord, error) {
	none := readyWord{}
	dirs, err := a.dirs()
	if err != nil {
		return none, &unbuiltError{err}
	}
	logs := filepath.Join(dirs.State, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return none, &unbuiltError{fmt.Errorf("make log folder: %w", err)}
	}
	out, err := os.OpenFile(pendingLog(dirs, os.Getpid()), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return none, &unbuiltError{fmt.Errorf("make log: %w", err)}
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return none, &unbuiltError{err}
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return none, &unbuiltError{err}
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		return none, &unbuiltError{fmt.Errorf("find cloister itself: %w", err)}
	}
	at := slices.Index(a.args, verb) + 1
	args := slices.Concat([]string{os.Args[0]}, a.args[:at], []string{"--ready-fd=3"}, flags, a.args[at:])
	p, err := os.StartProcess(self, args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{null, out, out, w}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return none, &unbuiltError{fmt.Errorf("start in the background: %w", err)}
	}
	var word readyWord
	if err := json.NewDecoder(r).Decode(&word); err != nil {
		state, waitErr := p.Wait()
		_ = os.Remove(out.Name())
		return none, &unbuiltError{errors.Join(fmt.Errorf("start in the background: it ended before its command ran: %v", state), waitErr)}
	}
	if word.Error != "" || word.Joined {
		_, waitErr := p.Wait()
		_ = os.Remove(out.Name())
		if waitErr != nil {
			return none, &unbuiltError{waitErr}
		}
	}
	if word.Error != "" {
		return none, &backgroundError{word}
	}
	// The guardian learns it another way: the next caller finds it running.
	if c, err := a.dial(ctx); err == nil {
		_ = settled(ctx, c) // it runs, whatever the guardian says
		c.Close()
	}
	return word, p.Release()
}

// readyWord is what a background run tells the one that started it.
type readyWord struct {
	Name   string   `json:"name,omitempty"`
	Joined bool     `json:"joined,omitempty"` // Name runs already, started by another
	Error  string   `json:"error,omitempty"`
	Hints  []string `json:"hints,omitempty"`
	Status int      `json:"status,omitempty"`
}

// backgroundError is a background run's failure, told by the foreground.
type backgroundError struct{ word readyWord }

func (e *backgroundError) Error() string   { return e.word.Error }
func (e *backgroundError) Hints() []string { return e.word.Hints }

func pendingLog(d xdg.Dirs, pid int) string {
	return filepath.Join(d.State, "logs", ".pending-"+strconv.Itoa(pid))
}

// announce wires a background run to the one that waits for it. The function
// that it gives tells of a failure.
func (a *app) announce(f *runFlags, s *session.Shim, dirs xdg.Dirs) func(error) {
	if f.ready == 0 {
		return func(error) {}
	}
	say := teller(f.ready)
	name := ""
	s.Granted = func(grant api.SessionGrant) error {
		name = grant.Name
		return nameLog(dirs, name)
	}
	s.Running = func() { say(readyWord{Name: name}) }
	return func(err error) { say(failedWord(f.verb, err)) }
}

// teller says one word on a descriptor.
func teller(fd int) func(readyWord) {
	w := os.NewFile(uintptr(fd), "ready")
	syscall.CloseOnExec(fd)
	return func(word readyWord) {
		// Nobody may be waiting any more; the session does not depend on it.
		_ = json.NewEncoder(w).Encode(word)
		w.Close()
	}
}

func failedWord(verb string, err error) readyWord {
	return readyWord{Error: err.Error(), Hints: hintsOf(err), Status: exitStatus(unbuilt(verb, err))}
}

// nameLog gives the log of a background run its name.
func nameLog(dirs xdg.Dirs, name string) error {
	if err := os.Rename(pendingLog(dirs, os.Getppid()), outputFile(dirs, name)); err != nil {
		return fmt.Errorf("name log: %w", err)
	}
	return nil
}

// maxOutputKept bounds what is kept of a command's output, of which the end is shown.
const maxOutputKept = 64 << 10

// again runs this program with other words, and gives the end of what it prints.
func (a *app) again(ctx context.Context, words ...string) (out []byte, status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, fmt.Errorf("find cloister itself: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(self, append([]string{os.Args[0]}, words...), &os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, w, w}})
	w.Close()
	if err != nil {
		return nil, 0, fmt.Errorf("start cloister again: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) })() // its end is waited for
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		out = append(out, buf[:n]...)
		out = out[max(0, len(out)-maxOutputKept):]
	}
	state, werr := p.Wait()
	if !errors.Is(err, io.EOF) {
		werr = errors.Join(werr, err)
	}
	if err := cmp.Or(ctx.Err(), werr); err != nil {
		return nil, 0, err
	}
	return out, state.ExitCode(), nil
}
