package monitor

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestEndedCommandsKeepNoTerminal: who asked for a command with a terminal, or with a pipe that nobody has written
// to, is told its end by the other side's: that comes only once none here has it open.
func TestEndedCommandsKeepNoTerminal(t *testing.T) {
	b, g := pair(t)
	go func() {
		for {
			s, err := g.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				if speak(s, []string{`{"started":true}`, `{"end":0}`}); s.Close() != nil {
					return
				}
			}()
		}
	}()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	copies := func(files ...*os.File) (std [3]*os.File) {
		for i, f := range files {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				t.Fatal(err)
			}
			std[i] = os.NewFile(uintptr(fd), f.Name())
		}
		return std
	}
	run := func(c Command, std [3]*os.File) {
		t.Helper()
		if err := b.command(&report{null}, c, std, nil); err != nil {
			t.Fatal(err)
		}
	}
	run(Command{Argv: []string{"true"}, Terminal: [3]bool{true, true, true}}, copies(slave, slave, slave))
	run(Command{Argv: []string{"true"}}, copies(r, null, null))
	slave.Close()
	r.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, master)
		ended <- err
	}()
	go func() {
		var err error
		for err == nil {
			_, err = w.Write([]byte("x"))
		}
		ended <- err
	}()
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a descriptor of a command that has ended is open still")
		}
	}
}

// TestReadingGoesOn: what is read comes whole, whatever waits in between.
func TestReadingGoesOn(t *testing.T) {
	in, err := newReading()
	if err != nil {
		t.Fatal(err)
	}
	defer in.end()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make(chan string, 1)
	in.of(r, func(r io.Reader) {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		got <- string(text)
	})
	for _, part := range []string{"one ", "two ", "three"} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if text := <-got; text != "one two three" {
		t.Errorf("%q", text)
	}
}
