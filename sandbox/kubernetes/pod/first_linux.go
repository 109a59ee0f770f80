package pod

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/tree"
)

// first is what the agent's first process does for the shim: it has the folders that the pod has
// copies of, and what was known of them before anything else ran.
type first struct {
	c      net.Conn
	r      *bufio.Reader
	copies *tree.Copies
}

// Work is the agent's first process at the door of its gate: it does what the shim asks for until
// the gate is gone.
func Work(c net.Conn) error {
	f := &first{c: c}
	if _, err := io.WriteString(f.c, link.Hello); err != nil {
		return err
	}
	f.r = bufio.NewReaderSize(f.c, 64<<10)
	for {
		var t link.Task
		if err := link.ReadLine(f.r, &t); err != nil {
			return err
		}
		var err error
		switch t.Do {
		case link.TaskFill:
			err = f.fill(t)
		case link.TaskPack:
			err = f.pack()
		case link.TaskEnd:
			endOthers()
			err = f.answer(nil)
		default:
			err = f.answer(fmt.Errorf("no such task: %q", t.Do))
		}
		if err != nil {
			return err
		}
	}
}

func (f *first) answer(err error) error {
	d := link.Done{}
	if err != nil {
		d.Error = err.Error()
	}
	return link.WriteLine(f.c, d)
}

func (f *first) fill(t link.Task) error {
	body := &link.Text{R: f.r}
	copies, err := tree.Fill(bufio.NewReaderSize(body, 64<<10), t.Roots)
	if _, cerr := io.Copy(io.Discard, body); cerr != nil {
		return cerr
	}
	f.copies = copies
	return f.answer(err)
}

func (f *first) pack() error {
	if f.copies == nil {
		return f.answer(errors.New("no folder was filled"))
	}
	b := &late{c: f.c}
	same, err := f.copies.Pack(b)
	if same && err == nil {
		return link.WriteLine(f.c, link.Done{Same: true})
	}
	if !b.begun {
		return f.answer(err)
	}
	return errors.Join(link.Body{W: f.c}.Close(), f.answer(err))
}

// late answers well when the first byte comes.
type late struct {
	c     net.Conn
	begun bool
}

// Write writes into the body.
func (l *late) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		if err := link.WriteLine(l.c, link.Done{}); err != nil {
			return 0, err
		}
	}
	return link.Body{W: l.c}.Write(p)
}

// endWithin bounds the wait for processes that were killed: one that hangs in the kernel changes
// nothing any more either.
const endWithin = 5 * time.Second

// endOthers ends every process of the container but this one, so that nothing changes while it is
// looked at. It does so only as the first process, whose kill(2) of all means its container.
func endOthers() {
	if os.Getpid() != 1 {
		return
	}
	for until := time.Now().Add(endWithin); time.Now().Before(until); {
		if err := unix.Kill(-1, syscall.SIGKILL); errors.Is(err, unix.ESRCH) {
			return
		}
		<-time.After(5 * time.Millisecond) // they are reaped meanwhile
	}
}
