package pod

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// What a command came to is the last that it writes to its standard error: kubectl has words of
// its own for an exit status, and one status for all that goes wrong.

// endOf is the end's beginning. A command can forge its own, which is its own status.
func endOf(id string) string { return "\x00cloister-end " + id + " " }

// readyOf is what a command that has a terminal writes when it may be sent what to run.
func readyOf(id string) string { return "\x00cloister-ready " + id + "\x00" }

// writeEnd writes how the command id ended, as a shell has it.
func writeEnd(w io.Writer, id string, code int) error {
	_, err := fmt.Fprintf(w, "%s%d\n", endOf(id), code)
	return err
}

// End passes what a command writes to its standard error on, and keeps its end.
type End struct {
	w    io.Writer
	mark []byte
	held []byte
	code int
	come bool
	came chan struct{} // closed with it

	asks  []byte
	ready chan struct{} // closed when what to run may be sent; nil once it is, or for a command without a terminal
}

// NewEnd is that of the command id.
func NewEnd(w io.Writer, id string) *End {
	return &End{w: w, mark: []byte(endOf(id)), asks: []byte(readyOf(id)), code: -1, came: make(chan struct{})}
}

// Ready is closed when a command that has a terminal asks for what to run, which it does once and before anything of
// the command's own. It is called before the first Write.
func (e *End) Ready() <-chan struct{} {
	e.ready = make(chan struct{})
	return e.ready
}

// Came is closed when the command's end has come.
func (e *End) Came() <-chan struct{} { return e.came }

// Code is the status, if the command's end has come.
func (e *End) Code() (code int, come bool) { return e.code, e.come }

// longest is a status in digits, with its newline as a terminal writes it.
const longest = 5

// ofKubectl begins what kubectl says of a command whose container was ended before kubectl had heard of its end.
var ofKubectl = []byte("command terminated with exit code ")

// Write passes on all but the end.
func (e *End) Write(p []byte) (int, error) {
	e.held = append(e.held, p...)
	for len(e.held) > 0 {
		if e.come {
			return len(p), e.after()
		}
		at := bytes.IndexByte(e.held, 0)
		if at < 0 {
			at = len(e.held)
		}
		if err := e.pass(at); err != nil {
			return 0, err
		}
		switch {
		case e.ready != nil && bytes.HasPrefix(e.held, e.asks):
			close(e.ready)
			e.ready, e.held = nil, e.held[len(e.asks):]
			continue
		case e.ready != nil && bytes.HasPrefix(e.asks, e.held):
			return len(p), nil
		case len(e.held) < len(e.mark) && bytes.HasPrefix(e.mark, e.held):
			return len(p), nil
		case !bytes.HasPrefix(e.held, e.mark):
			if err := e.pass(min(1, len(e.held))); err != nil {
				return 0, err
			}
			continue
		}
		rest := e.held[len(e.mark):]
		line := bytes.IndexByte(rest, '\n')
		if line < 0 && len(rest) < longest {
			return len(p), nil
		}
		code, err := strconv.Atoi(strings.TrimSuffix(string(rest[:max(line, 0)]), "\r"))
		if err != nil || code < 0 || code > 255 {
			if err := e.pass(1); err != nil {
				return 0, err
			}
			continue
		}
		close(e.came)
		e.code, e.come, e.held = code, true, rest[line+1:]
	}
	return len(p), nil
}

// after passes on the whole lines that came after the end, but for kubectl's of it.
func (e *End) after() error {
	for {
		line := bytes.IndexByte(e.held, '\n')
		if line < 0 {
			return nil
		}
		if bytes.HasPrefix(e.held, ofKubectl) {
			e.held = e.held[line+1:]
		} else if err := e.pass(line + 1); err != nil {
			return err
		}
	}
}

func (e *End) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := e.w.Write(e.held[:n])
	e.held = e.held[n:]
	return err
}

// Flush passes on what could have been the beginning of an end.
func (e *End) Flush() error { return e.pass(len(e.held)) }
