package hostexec

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Caller is the program inside a cloister that asks for a host command.
type Caller struct {
	Gate                  string // where the gate takes requests
	Dir                   string
	Stdin, Stdout, Stderr *os.File
	Signals               <-chan os.Signal
	Said                  []string // what was typed, where that is not what is asked for
}

// The exit statuses of a request that did not run, as env(1) has them.
const (
	statusFailed   = 125
	statusRefused  = 126
	statusNotFound = 127
)

// Call asks, passes the streams and the signals through, and returns the exit
// status of the command, or of why there was none.
func (c *Caller) Call(ctx context.Context, argv []string) int {
	status, err := c.call(ctx, argv)
	if err != nil {
		fmt.Fprintf(c.Stderr, "hostexec: %v\n", err)
	}
	return status
}

func (c *Caller) call(ctx context.Context, argv []string) (int, error) {
	req := Request{Dir: []byte(c.Dir)}
	size := 0
	for _, a := range argv {
		req.Argv = append(req.Argv, []byte(a))
		size += len(a)
	}
	if size > MaxArgv || len(argv) > MaxArgs {
		return statusRefused, fmt.Errorf("refused: the arguments have more than %d bytes, or are more than %d", MaxArgv,
			MaxArgs)
	}
	for _, word := range c.Said {
		req.Said = append(req.Said, []byte(word))
	}
	head, err := json.Marshal(req)
	if err != nil {
		return statusFailed, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Gate)
	if err != nil {
		return statusFailed, errors.New("the guardian cannot be reached: this cloister has no network, or no host command " +
			"is allowed")
	}
	defer conn.Close()
	if _, err := conn.Write(append(head, '\n')); err != nil {
		return statusFailed, errors.New("the guardian did not take the request")
	}
	s := &sender{w: conn, credit: make(chan struct{}, 1), left: window}
	go c.feed(s)
	stop := make(chan struct{})
	defer close(stop)
	go c.signals(s, stop)
	return c.hear(conn, s)
}

// sender writes frames of several goroutines.
type sender struct {
	mu sync.Mutex
	w  io.Writer

	credit chan struct{} // there is more of it
	held   sync.Mutex
	left   int // bytes of input that may be sent
}

// spend waits until some input may be sent, and says how much of n.
func (s *sender) spend(n int) int {
	for {
		s.held.Lock()
		if k := min(n, s.left); k > 0 {
			s.left -= k
			s.held.Unlock()
			return k
		}
		s.held.Unlock()
		<-s.credit
	}
}

// more is the host's word that input was taken.
func (s *sender) more(payload []byte) {
	if len(payload) != 4 {
		return
	}
	s.held.Lock()
	s.left += int(binary.BigEndian.Uint32(payload))
	s.held.Unlock()
	select {
	case s.credit <- struct{}{}:
	default:
	}
}

func (s *sender) send(kind frameKind, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeFrame(s.w, kind, payload)
}

// feed passes stdin on. It ends with the process: a read of a terminal cannot be
// called back.
func (c *Caller) feed(s *sender) {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.Stdin.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			k := s.spend(len(rest))
			if s.send(frameStdin, rest[:k]) != nil {
				return
			}
			rest = rest[k:]
		}
		if err != nil {
			_ = s.send(frameStdin, nil) // the host learns of a broken connection by itself
			return
		}
	}
}

func (c *Caller) signals(s *sender, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case sig := <-c.Signals:
			if n, ok := sig.(syscall.Signal); ok {
				_ = s.send(frameSignal, []byte{byte(n)})
			}
		}
	}
}

// hear writes what the command says, until its end.
func (c *Caller) hear(conn io.Reader, s *sender) (int, error) {
	for {
		kind, payload, err := readFrame(conn)
		if err != nil {
			return statusFailed, errors.New("the guardian went away; the command was ended")
		}
		switch kind {
		case frameStdout:
			_, err = c.Stdout.Write(payload)
		case frameStderr:
			_, err = c.Stderr.Write(payload)
		case frameMore:
			s.more(payload)
		case frameNotice:
			fmt.Fprintf(c.Stderr, "hostexec: %s\n", payload)
		case frameExit:
			var e Exit
			if err := json.NewDecoder(bytes.NewReader(payload)).Decode(&e); err != nil {
				return statusFailed, errors.New("the guardian's last word is none")
			}
			if e.Refused == "" {
				return e.Status, nil
			}
			for _, h := range e.Hints {
				e.Refused += "\nhint: " + h
			}
			return e.Status, errors.New("refused: " + e.Refused)
		case frameStdin, frameSignal:
		}
		if err != nil {
			// No one reads any more: as for a local command, SIGPIPE is the end.
			return 128 + int(syscall.SIGPIPE), nil
		}
	}
}
