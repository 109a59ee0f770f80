package microvm

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/microvm/wire"
)

// box is an enclosure with a machine in it, or one more command on such a machine.
type box struct {
	sandbox.Box            // the enclosure, of which the monitor is the command
	running     chan error // nil: the command runs
	over        chan struct{}
	closed      sync.Once
	byUs        chan struct{}

	end   sandbox.Status
	ended bool
	said  string
	err   error
}

// begun waits until the command runs, and says why it does not.
func begun(ctx context.Context, enclosure sandbox.Box, hear *os.File, s sandbox.Spec) (sandbox.Box, error) {
	b := &box{Box: enclosure, running: make(chan error, 2), over: make(chan struct{}), byUs: make(chan struct{})}
	go b.live(hear, s)
	select {
	case err := <-b.running:
		if err == nil {
			return b, nil
		}
		return nil, errors.Join(err, b.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), b.Close())
	}
}

// live listens to the monitor until it is gone, and to the enclosure until that is.
func (b *box) live(hear *os.File, s sandbox.Spec) {
	defer close(b.over)
	broken, err := b.listen(hear, s)
	hear.Close() // before the wait: a monitor that still writes would wait for a reader
	switch {
	case b.ended:
		b.err = b.Box.Close() // what else lives there ends with it
	case broken:
		b.err = b.Box.Close()
		b.end = sandbox.Status{Signal: int(unix.SIGKILL)}
	default:
		_, b.err = b.Box.Wait()
		b.end = sandbox.Status{Signal: int(unix.SIGKILL)}
	}
	if !b.ended {
		select {
		case <-b.byUs: // its last words are of its end
		default:
			if b.said == "" {
				b.said = "the machine's monitor ended"
			}
			b.err = errors.Join(b.err, errors.New("microvm: "+b.said))
		}
	}
	b.tell(err)
}

// tell says once whether the command runs: what a guest reports a second time has no caller.
func (b *box) tell(err error) {
	select {
	case b.running <- err:
	default:
	}
}

// listen receives what the monitor reports. Its error is why there is no command; once the
// command runs it has none. Broken says that the monitor lives and reports what is no report.
func (b *box) listen(hear *os.File, s sandbox.Spec) (broken bool, err error) {
	running := false
	in := bufio.NewScanner(hear)
	in.Buffer(nil, wire.MaxLine)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "hello":
			if rest != wire.Protocol {
				return true, fmt.Errorf("start microvm: the monitor speaks %q, and this is %q", rest, wire.Protocol)
			}
		case "started":
			running = true
			b.tell(nil)
		case "exec":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return true, fmt.Errorf("start microvm: %q was reported", plain(in.Text()))
			}
			errno := unix.Errno(n)
			missing := errno == unix.ENOENT || errno == unix.ENOTDIR
			return false, &sandbox.ExecError{Command: s.Argv[0], NotFound: missing, Err: errno}
		case "end":
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil {
				return true, fmt.Errorf("start microvm: %q was reported", plain(in.Text()))
			}
			end, ok := status(unix.WaitStatus(n))
			if !ok { // the guest's word, whose kernel may be the payload's
				b.said = fmt.Sprintf("the guest reported %#x, which is no end of a command", n)
				return false, nil
			}
			b.ended, b.end = true, end
			return false, nil
		case "error":
			b.said = plain(rest)
			if !running {
				return false, errors.New("start microvm: " + b.said)
			}
		}
	}
	if err := in.Err(); err != nil {
		b.said = "the monitor's report: " + err.Error()
		return true, errors.New("start microvm: " + b.said)
	}
	if running {
		return false, nil
	}
	return false, errors.New("start microvm: the monitor ended before the command began")
}

// mostSaid bounds what is printed of a guest's own words, in bytes.
const mostSaid = 2 << 10

// plain is a guest's words as a terminal may have them: nothing in them moves a cursor or colours a line.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(text[:min(len(text), mostSaid)], "?"))
}

// status is how a command ended, if a wait status says that it did.
func status(ws unix.WaitStatus) (sandbox.Status, bool) {
	switch {
	case ws.Exited():
		return sandbox.Status{Code: ws.ExitStatus()}, true
	case ws.Signaled():
		return sandbox.Status{Signal: int(ws.Signal())}, true
	}
	return sandbox.Status{}, false
}

// Wait returns when the command has ended and nothing is left.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.over
	return b.end, b.err
}

// Process is the enclosure's first process.
func (b *box) Process() int { return sandbox.ProcessOf(b.Box) }

// Close ends everything at once.
func (b *box) Close() error {
	b.closed.Do(func() { close(b.byUs) })
	err := b.Box.Close()
	<-b.over
	return err
}

// Dial connects to a port that something in the guest listens on: by the monitor, which is
// reached in the enclosure's own network.
func (b *box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	d, ok := b.Box.(sandbox.Dialer)
	if !ok {
		return nil, errors.New("microvm: the enclosure cannot be dialled")
	}
	c, err := d.Dial(ctx, monitor.DialPort)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	var answer [1]byte
	_, err = c.Write(binary.BigEndian.AppendUint16(nil, port))
	if err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err == nil && answer[0] == 0 {
		err = unix.ECONNREFUSED
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach port %d inside: %w", port, err), c.Close())
	}
	return c, nil
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	r, ok := b.Box.(sandbox.Resizer)
	if !ok {
		return nil
	}
	return r.Resize()
}
