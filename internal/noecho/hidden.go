// Package noecho asks for one line of a terminal that is not shown.
//
// Promise: however the question ends (Enter, Ctrl-C, a signal), the terminal is
// as it was before. A line of any length is taken whole, which a terminal that
// edits lines itself cuts at 4,095 bytes. Lines that were pasted behind it are
// taken off the terminal, so that no shell runs them; but after an interrupt.
//
// It does not keep what was typed from the memory of this process.
//
// Most readers want Line.
package noecho

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// most bounds what is kept of a line.
const most = 1 << 20

// settle is how long nothing comes after a line, for it to be all of a paste.
const settle = 50 * time.Millisecond

// ErrLines says that more than one line was pasted.
var ErrLines = errors.New("more than one line was pasted")

// Interrupted says that a signal, or its key, ended the question.
type Interrupted struct {
	Signal syscall.Signal
	// Key says that it was typed: the terminal sent no signal then.
	Key bool
}

func (e *Interrupted) Error() string { return "interrupted by " + e.Signal.String() }

// Raise lets the signal do what it does where no one listens: a shell that waits for
// this process learns that it was interrupted. A key is for all that run in front.
// It returns where the signal is ignored.
func (e *Interrupted) Raise() {
	signal.Reset(e.Signal)
	to := os.Getpid()
	if e.Key {
		to = 0
	}
	if syscall.Kill(to, e.Signal) == nil {
		time.Sleep(time.Second) //nolint:forbidigo // the signal is on its way
	}
}

// The keys that are no text.
const (
	ctrlC, ctrlD, backspace, ctrlU, ctrlZ, ctrlBackslash, del = 3, 4, 8, 21, 26, 28, 127
)

// Line writes the prompt to out and reads one line from in, a terminal. It gives
// io.EOF where Ctrl-D is all that was typed. Where more lines are to be asked for,
// those that were pasted behind this one are left for them.
func Line(in *os.File, out io.Writer, prompt string, more bool) (text string, err error) {
	signals := make(chan os.Signal, 4)
	// Ctrl-Z would leave a terminal that shows what is typed after fg.
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
	defer signal.Stop(signals)
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("take the terminal: %w", err)
	}
	defer func() {
		if failed := term.Restore(fd, before); err == nil && failed != nil {
			text, err = "", fmt.Errorf("give the terminal back: %w", failed)
		}
		fmt.Fprintln(out)
	}()
	fmt.Fprintf(out, "%s: ", prompt)
	t := terminal{fd, signals}
	text, err = t.line()
	if _, stopped := errors.AsType[*Interrupted](err); stopped || err == nil && more {
		return text, err
	}
	behind, failed := t.drain()
	if behind && err == nil {
		err = ErrLines
	}
	if failed != nil {
		err = failed
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// A terminal is read byte by byte, so that nothing is taken that is not asked for.
type terminal struct {
	fd      int
	signals <-chan os.Signal
}

func (t terminal) line() (string, error) {
	var text []byte
	over := false // there was more than is kept
	for {
		b, err := t.next()
		if err != nil {
			return "", err
		}
		switch b {
		case '\r', '\n':
			if over {
				return "", fmt.Errorf("more than %d bytes were typed", most)
			}
			return string(text), nil
		case ctrlC, ctrlBackslash: // SIGQUIT would have Go print where it was
			return "", &Interrupted{Signal: syscall.SIGINT, Key: true}
		case ctrlD:
			if len(text) == 0 {
				return "", io.EOF
			}
		case backspace, del:
			_, n := utf8.DecodeLastRune(text)
			text = text[:len(text)-n]
		case ctrlU:
			text, over = text[:0], false
		case ctrlZ:
		default:
			if over = over || len(text) == most; !over {
				text = append(text, b)
			}
		}
	}
}

// next waits for a byte, or a signal.
func (t terminal) next() (byte, error) {
	for {
		if err := t.stopped(); err != nil {
			return 0, err
		}
		ready, err := t.ready(100 * time.Millisecond)
		if err != nil {
			return 0, err
		}
		if ready {
			return t.read()
		}
	}
}

// stopped is the signal that came, nil for none.
func (t terminal) stopped() error {
	select {
	case s := <-t.signals:
		if n, ok := s.(syscall.Signal); ok && n != syscall.SIGTSTP {
			return &Interrupted{Signal: n}
		}
	default:
	}
	return nil
}

func (t terminal) read() (byte, error) {
	var b [1]byte
	for {
		n, err := unix.Read(t.fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("read the terminal: %w", err)
		case n == 0:
			return 0, io.EOF // it is gone
		default:
			return b[0], nil
		}
	}
}

// ready waits until there is something to read. It is select, since poll knows no
// terminals on some systems.
func (t terminal) ready(within time.Duration) (bool, error) {
	limit := unix.NsecToTimeval(int64(within))
	for {
		var set unix.FdSet
		set.Set(t.fd)
		n, err := unix.Select(t.fd+1, &set, nil, nil, &limit)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("wait for the terminal: %w", err)
		default:
			return n > 0, nil
		}
	}
}

// drain takes what was pasted behind the line, and reports whether there was any.
func (t terminal) drain() (behind bool, err error) {
	for {
		if err := t.stopped(); err != nil {
			return behind, err
		}
		ready, err := t.ready(settle)
		if err != nil || !ready {
			return behind, err
		}
		b, err := t.read()
		if err != nil {
			return behind, err
		}
		if b == ctrlC || b == ctrlBackslash {
			return behind, &Interrupted{Signal: syscall.SIGINT, Key: true}
		}
		// Of CR LF, or Ctrl-D, which script(1) types when its input ends: 0 where it was typed before.
		behind = behind || b != '\n' && b != ctrlD && b != 0
	}
}

// ErrNotSame says that nothing was typed, or not the same each time.
var ErrNotSame = errors.New("nothing was typed, or not twice the same")

// Same asks for one line by each prompt, as for a new passphrase, and gives it where it is
// the same each time.
func Same(in *os.File, out io.Writer, prompts ...string) (text string, err error) {
	for i, prompt := range prompts {
		line, err := Line(in, out, prompt, i+1 < len(prompts))
		if err != nil {
			return "", err
		}
		if line == "" || i > 0 && line != text {
			return "", ErrNotSame
		}
		text = line
	}
	return text, nil
}
