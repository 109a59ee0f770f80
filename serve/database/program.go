package database

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
	"syscall"
	"time"
)

// The program that has the connection to the database, beside cloister itself, and its command.
const (
	Program = "cloister-fleet"
	Command = "database"
)

// Hello is the first line that it writes.
type Hello struct{ Fault }

// Started starts the program for one connection to it: of the words and the environment that are given,
// and the socket as its descriptor 3. It ends with the connection.
func Started(program, address string, env []string) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		ours, theirs, err := socketPair()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", Program, err)
		}
		defer ours.Close()
		defer theirs.Close()
		conn, err := net.FileConn(ours)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", Program, err)
		}
		c := exec.CommandContext(context.WithoutCancel(ctx), program, Command, address)
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

// socketPair gives two ends, which no other program that is started just now has.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // macOS makes none that is closed by itself
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "database"), os.NewFile(uintptr(pair[1]), "database"), nil
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
	if err := s.SetReadDeadline(time.Now().Add(callWithin)); err != nil {
		return err
	}
	line, err := s.read.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s ended, or did not answer within %s", Program, callWithin)
	}
	var h Hello
	if err := json.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("%s answered %.80q", Program, line)
	}
	if h.Kind != OK {
		if h.Kind == IsNewer {
			return &Newer{h.Text}
		}
		return errors.New(h.Text)
	}
	return s.SetReadDeadline(time.Time{})
}

// Beside is where the program lies: in the folder of cloister itself.
func Beside(cloister string) (string, error) {
	file := filepath.Join(filepath.Dir(cloister), Program)
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("--database needs %s beside cloister, which is not there: %w", Program, err)
	}
	return file, nil
}
