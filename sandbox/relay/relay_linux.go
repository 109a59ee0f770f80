package relay

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cloister/internal/termsafe"
)

// Terminal relays between the caller's terminal and the cloister's own. The
// payload never holds a descriptor of the caller's.
type Terminal struct {
	master *os.File
	in     *os.File
	out    *os.File
	state  *term.State
	copied chan struct{}
	once   sync.Once
	stop   *os.File // closing it ends the reader of the caller's input
	typed  sync.WaitGroup
}

// Heard reads what is written to the terminal inside (sandbox.Wiring).
type Heard func(chunk []byte, lines func() bool) (at int, say []byte)

// New relays between the master of a terminal inside, which becomes its own, and
// those of the caller's three standard descriptors that are terminals. heard may be nil.
func New(master int, std [3]*os.File, tty [3]bool, heard Heard) (*Terminal, error) {
	if err := unix.SetNonblock(master, true); err != nil {
		return nil, fmt.Errorf("relay terminal: %w", err)
	}
	t := &Terminal{master: os.NewFile(uintptr(master), "terminal"), copied: make(chan struct{})}
	for i, f := range std {
		switch {
		case !tty[i]:
		case i == 0:
			t.in = f
		case t.out == nil:
			t.out = f
		}
	}
	if err := t.Resize(); err != nil {
		t.master.Close()
		return nil, err
	}
	if t.in != nil {
		state, err := term.MakeRaw(int(t.in.Fd()))
		if err != nil {
			t.master.Close()
			return nil, fmt.Errorf("set terminal: %w", err)
		}
		t.state = state
		r, stop, err := os.Pipe()
		if err != nil {
			t.restore()
			t.master.Close()
			return nil, fmt.Errorf("relay terminal: %w", err)
		}
		t.stop = stop
		t.typed.Go(func() { t.input(r) })
	}
	go func() {
		defer close(t.copied)
		sink := io.Discard
		if t.out != nil {
			sink = termsafe.New(t.out)
			if heard != nil {
				sink = &listener{sink, heard, t.lines}
			}
		}
		// The copy ends with EIO when the last process inside has let go.
		_, _ = io.Copy(sink, t.master)
	}()
	return t, nil
}

// listener writes on what it reads, with what is said of it.
type listener struct {
	out   io.Writer
	heard Heard
	lines func() bool
}

func (l *listener) Write(p []byte) (int, error) {
	at, say := l.heard(p, l.lines)
	if len(say) == 0 {
		return l.out.Write(p)
	}
	n, err := l.out.Write(p[:at])
	if err == nil {
		_, err = l.out.Write(say)
	}
	if err != nil || at == len(p) {
		return n, err
	}
	rest, err := l.out.Write(p[at:])
	return n + rest, err
}

// lines reports whether the program inside leaves its terminal to make lines of what is
// typed and written, as no program does that draws a screen.
func (t *Terminal) lines() bool {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return false
	}
	lines := false
	err = raw.Control(func(fd uintptr) {
		modes, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		lines = err == nil && modes.Lflag&unix.ICANON != 0 && modes.Oflag&unix.OPOST != 0
	})
	return err == nil && lines
}

// input copies what is typed until the box is gone. It waits on both, so that
// no byte typed afterwards is taken from the shell.
func (t *Terminal) input(stop *os.File) {
	defer stop.Close()
	buf := make([]byte, 4096)
	fd := int(t.in.Fd())
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && err != unix.EINTR {
			return
		}
		if ready[1].Revents != 0 {
			return
		}
		if ready[0].Revents == 0 {
			continue
		}
		n, err := unix.Read(fd, buf)
		if n <= 0 {
			if err == unix.EINTR {
				continue
			}
			// The caller's terminal went away: the command gets a hang-up.
			t.master.Close()
			return
		}
		if _, err := t.master.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Resize copies the caller's window size.
func (t *Terminal) Resize() error {
	for _, f := range []*os.File{t.in, t.out} {
		if f == nil {
			continue
		}
		size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			continue // a terminal that has gone has no size; its hang-up follows
		}
		raw, err := t.master.SyscallConn()
		if err != nil {
			return fmt.Errorf("resize terminal: %w", err)
		}
		var set error
		if err := raw.Control(func(fd uintptr) { set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) }); err != nil {
			return fmt.Errorf("resize terminal: %w", err)
		}
		if set != nil {
			return fmt.Errorf("resize terminal: %w", set)
		}
		return nil
	}
	return nil
}

func (t *Terminal) restore() {
	if t.state != nil {
		_ = term.Restore(int(t.in.Fd()), t.state) // a terminal that has gone cannot be restored
	}
}

// Finish waits for the last output and gives the terminal back.
func (t *Terminal) Finish() {
	t.once.Do(func() {
		<-t.copied
		if t.stop != nil {
			t.stop.Close()
			t.typed.Wait() // the caller may close its input now, and give its number to another file
		}
		t.master.Close()
		t.restore()
	})
}
