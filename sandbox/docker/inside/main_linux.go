package inside

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
)

// Main is the program inside. Its result is an exit status; what went wrong the
// shim has been notified.
func Main(args []string) int {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	var err error
	switch role {
	case RoleGate:
		err = runGate()
	case RoleInit:
		err = runInit()
	case rolePayload:
		err = runPayload()
	case RoleBorder:
		err = runBorder()
	case RoleHold:
		_, err = io.Copy(io.Discard, os.Stdin)
	default:
		err = fmt.Errorf("%s: no such role: %q", Name, role)
	}
	if err != nil {
		if role != rolePayload { // its standard error is the caller's
			fmt.Fprintln(os.Stderr, err)
		}
		return 125
	}
	return 0
}

// talkWithin bounds a word to someone who does not listen.
const talkWithin = 10 * time.Second

// Line is a conversation in messages.
type Line struct{ *passfd.Conn }

// NewLine takes a socket over.
func NewLine(c *net.UnixConn) Line { return Line{passfd.New(c, nil, MaxLine)} }

// dial opens the conversation with the shim.
func dial(role string, files ...*os.File) (Line, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: Door, Net: "unix"})
	if err != nil {
		return Line{}, fmt.Errorf("reach the shim: %w", err)
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return Line{}, fmt.Errorf("look at ids: %w", err)
	}
	hello := &Hello{Role: role, IDs: string(ids)}
	if hello.Spaces, err = OwnNamespaces(); err != nil {
		return Line{}, err
	}
	if role == RoleInit {
		if err := engineLacks(); err != nil && !off("seccomp", "capabilities") {
			hello.Lacks = err.Error()
		}
	}
	l := NewLine(c)
	return l, l.Say(Message{Hello: hello}, files...)
}

// inherited makes a conversation of a descriptor.
func inherited(f *os.File) (Line, error) {
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return Line{}, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Line{}, errors.New("the descriptor is no unix socket")
	}
	return NewLine(u), nil
}

// Close ends the conversation: a word that is on its way is lost, and no error of
// it tells more than the other end's silence.
func (l Line) Close() {
	if l.Conn != nil {
		_ = l.Conn.Close()
	}
}

// Say sends a message with files, which stay the caller's.
func (l Line) Say(m Message, files ...*os.File) error {
	text, err := exactjson.Marshal(m)
	if err != nil {
		return err
	}
	return l.Write(text, files, time.Now().Add(talkWithin))
}

// Hear waits for a message; its files are to be taken.
func (l Line) Hear() (Message, error) {
	var m Message
	text, err := l.Read()
	if err != nil {
		return m, err
	}
	err = exactjson.Unmarshal(text, &m)
	return m, err
}

// Fail tells the other end why.
func (l Line) Fail(err error) error {
	f := &Failure{Text: err.Error()}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		f.Errno = int(e)
	}
	if told, ok := errors.AsType[*Failure](err); ok {
		f = told
	}
	return l.Say(Message{Failed: f})
}
