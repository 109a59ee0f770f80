// Package wiring makes what a command in a sandbox is given: its streams, of which the host has the other ends, and
// its variables.
//
// The promise: where it fails, it leaves nothing open. It starts no command.
//
// Most readers want [Of].
package wiring

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/creack/pty"

	"cloister/sandbox"
)

// Ends are the host's ends of a command's streams.
type Ends struct {
	Theirs             []*os.File // for the command alone
	Stdin, Out, ErrOut *os.File
	Term, Slave        *os.File
}

// Close lets go of them.
func (e Ends) Close() {
	for _, f := range []*os.File{e.Stdin, e.Out, e.ErrOut, e.Term, e.Slave} {
		if f != nil {
			f.Close()
		}
	}
}

// Of gives a command's streams: those of a terminal of a size, or pipes, with one to it for stdin.
func Of(stdin bool, cols, rows uint32) (w sandbox.Wiring, e Ends, err error) {
	if cols > 0 || rows > 0 {
		master, slave, err := pty.Open()
		if err != nil {
			return w, e, err
		}
		// The driver relays from this end until the command has ended.
		e.Term, e.Slave = master, slave
		if err := pty.Setsize(master, Size(cols, rows)); err != nil {
			e.Close()
			return w, e, err
		}
		return sandbox.Wiring{Stdin: slave, Stdout: slave, Stderr: slave}, e, nil
	}
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	if stdin {
		w.Stdin, e.Stdin = pipe()
	} else if w.Stdin, err = os.Open(os.DevNull); err != nil {
		return w, e, err
	}
	e.Out, w.Stdout = pipe()
	e.ErrOut, w.Stderr = pipe()
	for _, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if f != nil {
			e.Theirs = append(e.Theirs, f)
		}
	}
	if err != nil {
		e.Close()
		for _, f := range e.Theirs {
			f.Close()
		}
	}
	return w, e, err
}

// Size is a terminal's.
func Size(cols, rows uint32) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(min(cols, 10_000)), Rows: uint16(min(rows, 10_000))}
}

// WithEnv is an environment with some variables set.
func WithEnv(base []string, with map[string]string) []string {
	out := slices.DeleteFunc(slices.Clone(base), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		_, set := with[name]
		return set
	})
	for _, name := range slices.Sorted(maps.Keys(with)) {
		out = append(out, name+"="+with[name])
	}
	return out
}
