package judged

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Pipes stand in the place of files that a command which joins a judged container was given: the first
// process, which hands them on, is judged as well, and receives no file that a list does not name.
type Pipes struct {
	ends  []*os.File // the command's
	stop  []func()
	moved sync.WaitGroup
}

// Piped gives the wiring with pipes in the place of files, where the Spec's session is judged. What is
// written to them arrives until the command has ended; Close waits for that.
func Piped(s sandbox.Spec, w sandbox.Wiring) (sandbox.Wiring, *Pipes, error) {
	p := &Pipes{}
	if !Wanted(s) {
		return w, p, nil
	}
	for i, f := range []**os.File{&w.Stdin, &w.Stdout, &w.Stderr} {
		if *f == nil {
			continue // refused by who looks at it
		}
		var st unix.Stat_t
		if err := unix.Fstat(int((*f).Fd()), &st); err != nil {
			return w, nil, errors.Join(fmt.Errorf("join cloister: %w", err), p.Close())
		}
		kind := st.Mode & unix.S_IFMT
		_, noTerminal := unix.IoctlGetTermios(int((*f).Fd()), unix.TCGETS)
		if kind != unix.S_IFREG && kind != unix.S_IFCHR || noTerminal == nil {
			continue
		}
		theirs, err := p.add(*f, i == 0)
		if err != nil {
			return w, nil, errors.Join(fmt.Errorf("join cloister: %w", err), p.Close())
		}
		*f = theirs
	}
	return w, p, nil
}

// add begins to move bytes between a file and a pipe, of which it gives the command's end.
func (p *Pipes) add(f *os.File, in bool) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if in {
		p.ends, p.stop = append(p.ends, r), append(p.stop, func() { _ = w.SetDeadline(time.Unix(1, 0)) })
		p.moved.Go(func() {
			_, _ = io.Copy(w, f) // the command reads no more, or sees the end where a file cannot be read
			_ = w.Close()
		})
		return r, nil
	}
	p.ends, p.stop = append(p.ends, w), append(p.stop, func() { _ = r.SetDeadline(time.Unix(1, 0)) })
	p.moved.Go(func() {
		if _, err := io.Copy(f, r); errors.Is(err, os.ErrDeadlineExceeded) {
			drain(f, r)
		}
		_ = r.Close()
	})
	return w, nil
}

// drain writes what lies in a pipe: no more than it holds, since a process that was left behind may fill it for ever.
func drain(to, from *os.File) {
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 1<<16)
	_ = raw.Control(func(fd uintptr) {
		room, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		for err == nil && room > 0 {
			var n int
			if n, err = unix.Read(int(fd), buffer[:min(room, len(buffer))]); errors.Is(err, syscall.EINTR) {
				err = nil
				continue
			}
			if n <= 0 || err != nil {
				return
			}
			room -= n
			_, err = to.Write(buffer[:n])
		}
	})
}

// Given closes the command's ends, once it has them.
func (p *Pipes) Given() {
	for _, f := range p.ends {
		_ = f.Close()
	}
	p.ends = nil
}

// Close ends the moving, when what was written so far has arrived.
func (p *Pipes) Close() error {
	p.Given()
	for _, stop := range p.stop {
		stop()
	}
	p.moved.Wait()
	return nil
}
