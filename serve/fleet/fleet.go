// Package fleet starts cloister-fleet, the program beside cloister that has the libraries of a fleet, for one
// connection by a socket that both have from the start.
//
// The promise: no other program has the socket; the program's first line says so where it lacks what it was started
// for, and it ends with the connection.
//
// It does not know what is said on the connection afterwards.
//
// Most readers want [Started].
package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
)

// Program is its name.
const Program = "cloister-fleet"

// Socket is the descriptor of its connection.
const Socket = 3

// helloWithin bounds its first line.
const helloWithin = 8 * time.Second

// Hello is that line.
type Hello struct {
	Kind string `json:"kind,omitempty"` // why it has not what it was started for, in a word of the caller's
	Text string `json:"text,omitempty"`
}

// Refused is the error of a program that says so.
type Refused struct{ Hello }

func (e *Refused) Error() string { return e.Text }

// Started starts the program for one connection to it, of these words and this environment.
func Started(program string, env []string, words ...string) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		pair, err := passfd.Pair(unix.SOCK_STREAM)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", Program, err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), Program), os.NewFile(uintptr(pair[1]), Program)
		defer ours.Close()
		defer theirs.Close()
		conn, err := net.FileConn(ours)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", Program, err)
		}
		c := exec.CommandContext(context.WithoutCancel(ctx), program, words...)
		c.Env, c.Dir, c.Stderr, c.ExtraFiles = env, "/", os.Stderr, []*os.File{theirs}
		if err := c.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w", Program, err), conn.Close())
		}
		s := &started{Conn: conn, read: bufio.NewReader(conn), ended: make(chan struct{})}
		go func() {
			defer close(s.ended)
			_ = c.Wait() // how it went its first line said
		}()
		if err := s.hello(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
}

// started is the connection to a program of ours.
type started struct {
	net.Conn
	read  *bufio.Reader
	ended chan struct{}
}

func (s *started) Read(p []byte) (int, error) { return s.read.Read(p) }

func (s *started) Close() error {
	err := s.Conn.Close()
	<-s.ended // the program ends with the connection
	return err
}

// hello waits for the program to have its own connection.
func (s *started) hello() error {
	if err := s.SetReadDeadline(time.Now().Add(helloWithin)); err != nil {
		return err
	}
	line, err := s.read.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s ended, or did not answer within %s", Program, helloWithin)
	}
	var h Hello
	if err := json.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("%s answered %.80q", Program, line)
	}
	if h != (Hello{}) {
		return &Refused{h}
	}
	return s.SetReadDeadline(time.Time{})
}

// Beside is where the program lies: in the folder of cloister itself. flag is what needs it.
func Beside(cloister, flag string) (string, error) {
	file := filepath.Join(filepath.Dir(cloister), Program)
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("%s needs %s beside cloister, which is not there: %w", flag, Program, err)
	}
	return file, nil
}

// Joined gives the program its end of the connection.
func Joined() (net.Conn, error) {
	f := os.NewFile(Socket, "cloister")
	defer f.Close()
	return net.FileConn(f)
}

// Say writes the program's first line.
func Say(conn net.Conn, h Hello) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
