package kubernetes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/sandbox/kubernetes/feed"
	"cloister/sandbox/kubernetes/pod"
	"cloister/sandbox/relay"
)

// attached is what a command has of the caller's descriptors. Where it has a terminal of its own
// kubectl has one of this host, whose size it passes on, and the caller's is relayed to that.
type attached struct {
	feed         *feed.Feed // of a command without a terminal
	relay        *relay.Terminal
	inner, outer *os.File // masters: kubectl's, and the relay's
	slaves, kept []*os.File
	pumps        sync.WaitGroup
	pump         func()
}

// terminal reports whether the command gets a terminal.
func terminal(w sandbox.Wiring) bool {
	return w.Stdin != nil && w.Stdout != nil && term.IsTerminal(int(w.Stdin.Fd())) && term.IsTerminal(int(w.Stdout.Fd()))
}

// wire connects kubectl to the caller's descriptors. It never has one that is a terminal. What is to be run is the
// first that it passes on.
func (b *box) wire(w sandbox.Wiring, run pod.Run) (_ *attached, err error) {
	t := &attached{}
	defer func() {
		if err != nil {
			t.finish()
		}
	}()
	if terminal(w) {
		return t, b.attach(t, w, run)
	}
	text, err := run.Text()
	if err != nil {
		return nil, err
	}
	// Whoever starts a command may close its descriptors when it runs.
	for _, f := range []**os.File{&w.Stdin, &w.Stdout, &w.Stderr} {
		if *f, err = t.keep(*f); err != nil {
			return nil, err
		}
	}
	if t.feed, err = feed.New(text, w.Stdin); err != nil {
		return nil, err
	}
	b.tail = pod.NewEnd(safe(w.Stderr), b.id)
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = t.feed.Input(), safe(w.Stdout), b.tail
	return t, nil
}

// keep gives a descriptor of its own of the same file.
func (t *attached) keep(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, nil
	}
	own := -1
	err := on(f, func(fd int) (err error) {
		own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.kept = append(t.kept, os.NewFile(uintptr(own), f.Name()))
	return t.kept[len(t.kept)-1], nil
}

// safe is a descriptor that is a terminal, or not one.
func safe(f *os.File) io.Writer {
	if f != nil && term.IsTerminal(int(f.Fd())) {
		return termsafe.New(f)
	}
	return f
}

// attach makes two terminals: kubectl has the inner one's end, the relay the outer one's master, and
// what passes between them loses the command's end.
func (b *box) attach(t *attached, w sandbox.Wiring, run pod.Run) error {
	for _, to := range []**os.File{&t.inner, &t.outer} {
		master, slave, err := pty.Open()
		if err != nil {
			return err
		}
		*to, t.slaves = master, append(t.slaves, slave)
		err = on(slave, func(fd int) error {
			_, err := term.MakeRaw(fd)
			return err
		})
		if err != nil {
			return err
		}
	}
	own := -1
	err := on(t.outer, func(fd int) (err error) {
		own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	std := [3]*os.File{w.Stdin, w.Stdout, w.Stderr}
	if t.relay, err = relay.New(own, std, [3]bool{true, true, false}, w.Heard); err != nil {
		return err
	}
	now, err := t.size()
	if err != nil {
		return err
	}
	run.Columns, run.Rows = now.Col, now.Row
	text, err := run.Text()
	if err != nil {
		return err
	}
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = t.slaves[0], t.slaves[0], t.slaves[0]
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // it is signalled new sizes
	b.tail = pod.NewEnd(t.slaves[1], b.id)
	ready := b.tail.Ready()
	t.pump = func() {
		over := make(chan struct{})
		go func() { // ends with the outer terminal
			select {
			case <-ready:
				if _, err := t.inner.Write(text); err != nil {
					return
				}
				_, _ = io.Copy(t.inner, t.slaves[1])
			case <-over:
			}
		}()
		t.pumps.Go(func() {
			defer close(over)
			_, _ = io.Copy(b.tail, t.inner) // EIO when kubectl has ended
		})
	}
	return nil
}

// begun lets what is written pass, when kubectl runs.
func (t *attached) begun() {
	if t.feed != nil {
		t.feed.Begin()
		return
	}
	_ = t.slaves[0].Close() // kubectl's own
	t.pump()
}

// on calls the kernel about an open file. Fd would have its reads block a close.
func on(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var cerr error
	err = raw.Control(func(fd uintptr) { cerr = call(int(fd)) })
	return errors.Join(err, cerr)
}

// size gives kubectl's terminal the size of the caller's.
func (t *attached) size() (now *unix.Winsize, err error) {
	err = on(t.outer, func(fd int) (err error) {
		now, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	})
	if err == nil {
		err = on(t.inner, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, now) })
	}
	if err != nil {
		return nil, fmt.Errorf("resize terminal: %w", err)
	}
	return now, nil
}

func (t *attached) resize() error {
	if t == nil || t.relay == nil {
		return nil
	}
	err := t.relay.Resize()
	if err == nil {
		_, err = t.size()
	}
	return err
}

// drain waits until all that kubectl wrote has passed.
func (t *attached) drain() {
	if t != nil {
		t.pumps.Wait()
	}
}

// finish gives the caller's terminal back, when all that was written has come out.
func (t *attached) finish() {
	if t == nil {
		return
	}
	if t.feed != nil {
		t.feed.End()
	}
	t.pumps.Wait()
	var errs []error
	for _, f := range slices.Concat(t.slaves, t.kept, []*os.File{t.inner, t.outer}) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	_ = errors.Join(errs...) // they were only relayed
	if t.relay != nil {
		t.relay.Finish()
	}
}
