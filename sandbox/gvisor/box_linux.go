package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// box is an enclosure with a kernel in it, or one more command on such a kernel.
type box struct {
	sandbox.Box // the enclosure, of which the kernel is the command
	wired       wiring
	program     string
	sound       *sound     // of a memory that it goes on from; nil without
	began       chan error // nil: the command runs
	over        chan struct{}
	closed      sync.Once
	byUs        chan struct{}

	end   sandbox.Status
	ended bool
	said  string
	err   error
}

// attach waits until the command runs, and says why it does not.
func attach(
	ctx context.Context, enclosure sandbox.Box, r *reports, wired wiring, s sandbox.Spec, program string,
	sound *sound,
) (sandbox.Box, error) {
	b := &box{Box: enclosure, wired: wired, program: program, sound: sound, began: make(chan error, 1),
		over: make(chan struct{}), byUs: make(chan struct{})}
	go b.live(r, s)
	select {
	case err := <-b.began:
		if err == nil {
			return b, nil
		}
		return nil, errors.Join(err, b.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), b.Close())
	}
}

// live listens to the kernel until it is gone, and to the enclosure until that is.
func (b *box) live(r *reports, s sandbox.Spec) {
	defer close(b.over)
	err := b.listen(r, s)
	if b.ended {
		// The command is over; what else lives on the kernel ends with it.
		b.err = b.Box.Close()
	} else if err != nil {
		// What was refused may live on.
		b.err, b.end = b.Box.Close(), sandbox.Status{Signal: int(unix.SIGKILL)}
	} else {
		_, b.err = b.Box.Wait()
		b.end = sandbox.Status{Signal: int(unix.SIGKILL)}
	}
	r.close()
	b.wired.relays.Wait()
	b.err = errors.Join(b.err, b.wired.failed.get())
	if b.said != "" && !b.ended {
		select {
		case <-b.byUs: // its last words are of its end
		default:
			b.err = errors.Join(b.err, fmt.Errorf("gvisor: %s", b.said))
		}
	}
	b.began <- err
}

// listen receives what kernel and first process report. Its error is why there is no
// command; once the command runs it has none.
func (b *box) listen(r *reports, s sandbox.Spec) error {
	running, known := false, false
	for line := range r.lines() {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "hello":
			if want := Protocol + " gvisor " + Pin; rest != want {
				return lacking(fmt.Sprintf("%s is of another version: %q, %q is needed", b.program, rest, want))
			}
			known = true
		case "waits":
			if b.sound == nil {
				return fmt.Errorf("start gvisor: %q was reported", line)
			}
			if err := b.sound.tell(); err != nil {
				return err
			}
		case "identity":
			if name := plan.Hostname(s.Name); b.sound == nil || running {
				continue // a second answer changes nothing
			} else if rest != name {
				return fmt.Errorf("start gvisor: what goes on takes itself for %q, and is %q", rest, name)
			}
			running = true
			b.began <- nil
		case "started":
			if b.sound != nil {
				continue // what goes on from memory says who it is before it counts as running
			}
			if !running {
				running = true
				b.began <- nil
			}
		case "exec":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return fmt.Errorf("start gvisor: %q was reported", line)
			}
			errno := unix.Errno(n)
			missing := errno == unix.ENOENT || errno == unix.ENOTDIR
			return &sandbox.ExecError{Command: s.Argv[0], NotFound: missing, Err: errno}
		case "end":
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil {
				return fmt.Errorf("start gvisor: %q was reported", line)
			}
			ws := unix.WaitStatus(n)
			b.ended, b.end = true, sandbox.Status{Code: ws.ExitStatus()}
			if ws.Signaled() {
				b.end = sandbox.Status{Signal: int(ws.Signal())}
			}
			if !running {
				b.began <- nil
			}
			return nil
		case "other":
			return lacking(fmt.Sprintf("%s beside %s is of another version: %q, %q is needed", FirstName, b.program,
				rest, Protocol))
		case "error":
			b.said = rest
			if !running {
				return fmt.Errorf("start gvisor: %s", rest)
			}
		}
	}
	switch {
	case running:
		return nil
	case !known:
		return lacking(b.program + " is not the program that belongs to this cloister: it did not say its version")
	}
	return errors.New("start gvisor: the kernel ended before the command began")
}

// Wait returns when the command has ended and nothing is left.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.over
	return b.end, b.err
}

// Close ends everything at once.
func (b *box) Close() error {
	b.closed.Do(func() { close(b.byUs) })
	err := b.Box.Close()
	<-b.over
	return err
}

// Dial connects to a port that something inside listens on.
func (b *box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	d, ok := b.Box.(sandbox.Dialer)
	if !ok {
		return nil, errors.New("gvisor: the enclosure cannot be dialled")
	}
	return d.Dial(ctx, port)
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	r, ok := b.Box.(sandbox.Resizer)
	if !ok {
		return nil
	}
	return r.Resize()
}
