// Package shell reads SSH between a program and its server, each with a
// connection of its own.
//
// Promise: a program logs in with no credential, each thing that it wants to run
// is asked about before a byte of it goes up, and whatever is no session (forwarded
// ports, screens and agents) is refused. The server's key is one that the caller
// expects, or nothing is said to it.
//
// It does not judge, hold credentials or dial: a Gate does.
//
// Most readers want Serve.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// mostSessions is what sshd lets one connection have (MaxSessions).
	mostSessions = 10
	// mostBefore bounds what a session may say before it says what to run.
	mostBefore      = 64
	mostBeforeBytes = 64 << 10
	// refusedStatus says that a command was not run, as a shell does.
	refusedStatus = 126
)

// A Request is one thing that a program wants to run.
type Request struct {
	User string
	// Command is the whole command line; Shell and Subsystem make it the words of
	// the two others.
	Command string
	Git     Git // of Command; zero where it is none of git's that can be read
	kind    string
	payload []byte
}

// The words for what is no command line.
const (
	Shell     = "shell"
	Subsystem = "subsystem " // and its name
)

// A Way is an open connection to the server, for one request. Its context ends when
// the request may not go on.
type Way struct {
	Context context.Context
	Conn    ssh.Conn
	Close   func()
}

// A Gate judges and opens.
type Gate struct {
	// Key proves that the server is the one that was asked for.
	Key ssh.Signer
	// Begin reports whether a user may log in. Its error is shown to the program.
	Begin func(ctx context.Context, user string) error
	// Open reports whether something may run, and gives the way. Its error is shown to the
	// program.
	Open func(ctx context.Context, r Request) (Way, error)
	// Head is given what says what to run, and Up of other bytes, before they go up,
	// Down of those that came; an error of Head or Up ends the session.
	Head func(n int) error
	Up   func(n int) error
	Down func(n int)
	// Handshake bounds the time until someone has logged in.
	Handshake time.Duration
}

// Serve serves a program's connection until it ends. The error is nil when
// someone had logged in.
func Serve(ctx context.Context, c net.Conn, g Gate) error {
	config := &ssh.ServerConfig{
		NoClientAuth: true, MaxAuthTries: 3, ServerVersion: "SSH-2.0-cloister",
		NoClientAuthCallback: func(m ssh.ConnMetadata) (*ssh.Permissions, error) {
			if err := g.Begin(ctx, m.User()); err != nil {
				return nil, &ssh.BannerError{Err: err, Message: bannerText(err)}
			}
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(g.Key)
	_ = c.SetDeadline(time.Now().Add(g.Handshake)) // fails on a closed connection only
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return fmt.Errorf("ssh: %w", err)
	}
	_ = c.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { refuseAll(requests) })
	slots := make(chan struct{}, mostSessions)
	for n := range channels {
		if n.ChannelType() != "session" {
			_ = n.Reject(ssh.Prohibited, "cloister: only sessions are read here, so a "+quoteWord(n.ChannelType())+
				" channel is refused")
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = n.Reject(ssh.ResourceShortage, fmt.Sprintf("cloister: more than %d sessions at once", mostSessions))
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			s := &session{g: g, user: conn.User()}
			s.serve(ctx, n)
		})
	}
	cancel()
	return nil
}

// refuseAll answers requests about a whole connection: forwarded ports, and the
// question whether someone is there, to which any answer will do.
func refuseAll(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// bannerText is an error as the program's person reads it.
func bannerText(err error) string {
	return "cloister refused this: " + strings.TrimRight(err.Error(), "\n") + "\n"
}

func quoteWord(s string) string {
	if len(s) > 40 {
		s = s[:40]
	}
	return fmt.Sprintf("%q", s)
}

// A session is one channel of a program.
type session struct {
	g    Gate
	user string
	near ssh.Channel
}

// serve waits for what is to run, asks, and carries it.
func (s *session) serve(ctx context.Context, n ssh.NewChannel) {
	near, requests, err := n.Accept()
	if err != nil {
		return
	}
	s.near = near
	defer func() { _ = near.Close() }()
	before, r, ok := s.wanted(requests)
	if !ok {
		return
	}
	way, err := s.g.Open(ctx, r)
	if err == nil {
		err = s.run(way, r, before, requests)
		way.Close()
	}
	if err != nil {
		_, _ = io.WriteString(near.Stderr(), bannerText(err))
		_, _ = near.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{refusedStatus}))
	}
	_ = near.Close()
	refuseAll(requests)
}

// said is a request of the program that waits for what is to run.
type said struct {
	kind    string
	payload []byte
}

// wanted reads up to what is to run.
func (s *session) wanted(requests <-chan *ssh.Request) (before []said, r Request, ok bool) {
	total := 0
	for q := range requests {
		keep, run := passes(q), false
		switch q.Type {
		case "exec", "subsystem", "shell":
			r, run = read(q)
			r.User = s.user
		}
		if total += len(q.Payload); total > mostBeforeBytes || len(before) >= mostBefore {
			keep, run = false, false
		}
		if q.WantReply {
			_ = q.Reply(keep || run, nil)
		}
		if run {
			return before, r, true
		}
		if keep {
			before = append(before, said{q.Type, q.Payload})
		}
	}
	return nil, r, false
}

// passes says which requests of a session go on as they are: a terminal's, and the
// variables that git and a terminal need. A screen and an agent belong to the
// program's side, and the server gets neither.
func passes(q *ssh.Request) bool {
	switch q.Type {
	case "pty-req", "window-change", "signal":
		return true
	case "env":
		var v struct{ Name, Value string }
		if ssh.Unmarshal(q.Payload, &v) != nil {
			return false
		}
		return v.Name == "GIT_PROTOCOL" || v.Name == "LANG" || strings.HasPrefix(v.Name, "LC_")
	}
	return false
}

// read reads what is to run.
func read(q *ssh.Request) (Request, bool) {
	r := Request{kind: q.Type, payload: q.Payload}
	var v struct{ Text string }
	switch {
	case q.Type == "shell":
		r.Command = Shell
		return r, true
	case ssh.Unmarshal(q.Payload, &v) != nil || strings.TrimSpace(v.Text) == "":
		return r, false
	case q.Type == "subsystem":
		r.Command = Subsystem + v.Text
		return r, true
	}
	r.Command = v.Text
	r.Git, _ = ParseGit(v.Text)
	return r, true
}

var (
	errServer  = errors.New("the server did not open a session")
	errRefused = errors.New("the server refused to run it")
)

// run opens the session at the server, says what was said, and carries both ways.
func (s *session) run(way Way, r Request, before []said, requests <-chan *ssh.Request) error {
	said := len(r.payload)
	for _, b := range before {
		said += len(b.payload)
	}
	if err := s.g.Head(said); err != nil {
		return err
	}
	far, answers, err := way.Conn.OpenChannel("session", nil)
	if err != nil {
		return errServer
	}
	unhook := context.AfterFunc(way.Context, func() { _ = far.Close() })
	defer unhook()
	defer func() { _ = far.Close() }()
	for _, b := range before {
		if _, err := far.SendRequest(b.kind, false, b.payload); err != nil {
			return errServer
		}
	}
	if ok, err := far.SendRequest(r.kind, true, r.payload); err != nil || !ok {
		go refuseAll(answers) // ends with the channel
		return errRefused
	}
	return s.carry(far, answers, requests)
}

// carry copies until the server has closed its channel.
func (s *session) carry(far ssh.Channel, answers, requests <-chan *ssh.Request) error {
	var down, side sync.WaitGroup
	down.Go(func() { _, _ = io.Copy(s.near, counted{far, s.g.Down}) })
	down.Go(func() { _, _ = io.Copy(s.near.Stderr(), counted{far.Stderr(), s.g.Down}) })
	up := make(chan error, 1)
	side.Go(func() {
		_, err := io.Copy(far, metered{s.near, s.g.Up})
		if over, is := errors.AsType[*overError](err); is {
			up <- over.err // before the server gets it: its end ends the session
			_ = far.Close()
			return
		}
		_ = far.CloseWrite() // fails where the server has closed, which the answers tell
		up <- nil
	})
	over := make(chan struct{})
	side.Go(func() {
		s.follow(far, requests, over)
		// What no one reads stops the whole connection, and its end. It ends with the
		// channel, which serve waits for.
		go refuseAll(requests)
	})
	for q := range answers { // until the server closes
		if q.WantReply {
			_ = q.Reply(false, nil)
		}
		if q.Type == "exit-status" || q.Type == "exit-signal" {
			down.Wait() // what it wrote comes before how it ended
			_, _ = s.near.SendRequest(q.Type, false, q.Payload)
		}
	}
	down.Wait()
	close(over)
	var err error
	select {
	case err = <-up:
	default:
		_ = s.near.CloseWrite()
		_ = s.near.Close() // ends the copy upwards
	}
	side.Wait()
	return err
}

// follow passes on what a program says of what runs already.
func (s *session) follow(far ssh.Channel, requests <-chan *ssh.Request, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case q, open := <-requests:
			if !open { // the program has gone
				_ = far.Close()
				return
			}
			keep := q.Type == "window-change" || q.Type == "signal"
			if q.WantReply {
				_ = q.Reply(keep, nil)
			}
			if keep && s.g.Up(len(q.Payload)) != nil { // a signal's name may be of any length
				_ = far.Close()
				return
			}
			if keep {
				_, _ = far.SendRequest(q.Type, false, q.Payload)
			}
		}
	}
}

// counted tells what was read.
type counted struct {
	from io.Reader
	tell func(int)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.tell(n)
	return n, err
}

// metered asks before what was read goes on.
type metered struct {
	from io.Reader
	ask  func(int) error
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if n > 0 {
		if err := m.ask(n); err != nil {
			return 0, &overError{err}
		}
	}
	return n, err
}

// overError is a bound's word.
type overError struct{ err error }

func (e *overError) Error() string { return e.err.Error() }
