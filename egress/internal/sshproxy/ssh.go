// Package sshproxy ends SSH of a program and logs in outside for the commands that are
// allowed, with an identity that no program inside has.
//
// Promise: no login and no command reaches a server before it was allowed and recorded. It
// speaks the protocol by package shell.
package sshproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/quota"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/shell"
	"cloister/egress/internal/stream"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/reading"
)

// An Identity is what logs in to a server, kept outside. Close is called when it is
// needed no more.
type Identity struct {
	Signers []ssh.Signer
	Close   func()
}

// Config is what connections that speak SSH need.
type Config struct {
	// Key is the session's. Nil: no connection can be read, and what needs it is
	// refused.
	Key *shell.HostKey
	// Known are files of known hosts, of which those that are there are read at each
	// login.
	Known []string
	// Identity opens what a rule names. Its signers may refuse to sign by a *Refused.
	Identity func(ctx context.Context, who IdentityRequest) (Identity, error)
}

// IdentityRequest is a login outside that an identity is to sign.
type IdentityRequest struct {
	Identity  string // in the words of a rule
	Authority authority.Authority
	User      string
	AskFirst  bool // a person, before it signs
}

// Serve ends SSH here, asks about who logs in and about each command, and runs
// those that are allowed on connections of its own, with the identity that the rule
// names.
func (h Config) Serve(ctx context.Context, s *stream.Stream) {
	if h.Key == nil {
		s.RefuseForm("rules read the logins to this host, and this session has no key for that: start the session again")
		return
	}
	signer, err := h.Key.Signer(s.Target.Host(), time.Now())
	if err != nil {
		s.RefuseForm(err.Error())
		return
	}
	s.Server.HangUp() // what a proxy's client had dialled: who logs in is not known yet
	c := &sshConn{s: s, with: h, ways: map[string]*sshWay{}}
	err = shell.Serve(ctx, s.Client.Source, shell.Gate{
		Key: signer, Begin: c.begin, Open: c.open, Handshake: s.Session.Limits.Handshake,
		Head: func(n int) error { return c.count(n, s.Session.Quota.Head) },
		Up:   func(n int) error { return c.count(n, s.Session.Quota.Spend) },
		Down: func(n int) { s.BodiesDown.Add(int64(n)) },
	})
	c.close()
	s.Server.Dialed = c.dialed
	if err != nil && !c.answered() {
		f := s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: "ssh: nobody logged in", Detail: dial.Quote(err.Error())})
		if cause := s.Conns.Killed(); cause != nil {
			f.Reason = cause.Error()
		}
		s.Session.Refused(f)
	}
	s.TellEnd()
}

// An sshConn is one connection of a program that speaks SSH.
type sshConn struct {
	s    *stream.Stream
	with Config

	all    sync.WaitGroup // what runs beside a way
	mu     sync.Mutex
	ways   map[string]*sshWay
	dialed netip.AddrPort
	spoken bool // a refusal of the login has been sent
}

// An sshWay is one connection to the server, by the user that logged in there.
type sshWay struct {
	ready chan struct{} // closed when conn or err is set
	conn  ssh.Conn
	err   error
}

func (c *sshConn) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoken
}

// begin asks whether a user may log in at all.
func (c *sshConn) begin(ctx context.Context, user string) error {
	err := c.s.Session.Quota.Take()
	if err == nil {
		v := c.s.Login(ctx, reading.Login{Protocol: "ssh", User: user})
		if v.Allow {
			return nil
		}
		err = &refusedError{refusal.Of(v, c.s.Target)}
	} else {
		err = c.refused(err)
	}
	c.mu.Lock()
	c.spoken = true
	c.mu.Unlock()
	return err
}

// refusedError is a refusal in plain words.
type refusedError struct{ r refusal.Refusal }

func (e *refusedError) Error() string {
	return strings.Join(append([]string{e.r.Reason}, e.r.Hints...), "\nhint: ")
}

// refused records a refusal of our own, and words it.
func (c *sshConn) refused(err error) error {
	f := c.s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	if forbidden, ok := errors.AsType[*guard.Forbidden](err); ok {
		f.Detail = forbidden.Detail()
	}
	if d, ok := errors.AsType[*dial.Error](err); ok {
		f.Hints = append(f.Hints, d.Hints...)
		if d.Err != nil {
			c.s.Session.Log.Info("ssh", "authority", c.s.Target.String(), "error", d.Err)
		}
	}
	if !c.s.Session.Refused(f) {
		return errors.New("this could not be recorded, so it may not happen")
	}
	return &refusedError{refusal.Refusal{Reason: f.Reason, Hints: f.Hints}}
}

// open asks about one command, and gives the connection that it runs on.
func (c *sshConn) open(ctx context.Context, r shell.Request) (shell.Way, error) {
	l := reading.Login{Protocol: "ssh", User: r.User, Command: r.Command, Repository: r.Git.Repository,
		Push: r.Git.Push}
	ctx, cancel := context.WithCancel(ctx)
	v, leave := c.allow(ctx, l, cancel)
	fail := func(err error) (shell.Way, error) {
		leave()
		cancel()
		return shell.Way{}, err
	}
	if !v.Allow {
		return fail(&refusedError{refusal.Of(v, c.s.Target)})
	}
	conn, err := c.way(ctx, r.User, v)
	if err != nil {
		return fail(c.refused(err))
	}
	return shell.Way{Context: ctx, Conn: conn, Close: func() { leave(); cancel() }}, nil
}

// allow asks the Decider, and keeps the command where Recheck finds it.
func (c *sshConn) allow(ctx context.Context, l reading.Login, cancel func()) (verdict.Answer, func()) {
	e := c.s.Session
	q := verdict.Query{Kind: verdict.Connect, Authority: c.s.Target, Via: c.s.Via, Login: &l,
		Detail: verdict.LoginDetail(l), Once: &c.s.Judged.Once}
	o := &stream.Underway{Query: q, Cancel: cancel}
	leave := func() { c.s.Judged.End(o) }
	for {
		generation := e.Generation.Load()
		v := e.Decider.Decide(ctx, q)
		if v.Allow {
			c.s.Judged.Enter(o)
		}
		if !v.Allow || e.Generation.Load() == generation {
			return v, leave
		}
	}
}

// way is the connection for one who logs in: made once, and again when it broke.
func (c *sshConn) way(ctx context.Context, user string, v verdict.Answer) (ssh.Conn, error) {
	key := fmt.Sprint(v.AskFirst) + v.Identity + "\n" + strings.Join(v.HostKeys, "\n")
	c.mu.Lock()
	w := c.ways[key]
	if w != nil {
		c.mu.Unlock()
		select {
		case <-w.ready:
			return w.conn, w.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	w = &sshWay{ready: make(chan struct{})}
	c.ways[key] = w
	c.mu.Unlock()
	defer close(w.ready)
	if w.err = c.dial(ctx, w, user, v); w.err != nil {
		c.forget(key, w) // the next one tries again
		return nil, w.err
	}
	c.all.Go(func() {
		_ = w.conn.Wait() // whatever it says, it has ended
		c.forget(key, w)
	})
	return w.conn, nil
}

// forget strikes a way that has ended.
func (c *sshConn) forget(key string, w *sshWay) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ways[key] == w {
		delete(c.ways, key)
	}
}

// close ends every way, and waits for what runs beside them.
func (c *sshConn) close() {
	c.mu.Lock()
	ways := slices.Collect(maps.Values(c.ways))
	c.mu.Unlock()
	for _, w := range ways {
		if <-w.ready; w.err == nil {
			_ = w.conn.Close()
		}
	}
	c.all.Wait()
}

// dial connects and logs in.
func (c *sshConn) dial(ctx context.Context, w *sshWay, user string, v verdict.Answer) error {
	s := c.s
	check, algorithms, err := shell.Expected(s.Target.String(), c.with.Known, v.HostKeys)
	if err != nil {
		return err
	}
	var who Identity
	if v.Identity != "" {
		if who, err = c.with.Identity(ctx, IdentityRequest{Identity: v.Identity, Authority: s.Target, User: user,
			AskFirst: v.AskFirst}); err != nil {
			return &dial.Error{Words: "log in to " + s.Target.String() + ": the identity " + dial.Quote(v.Identity) +
				" cannot be used: " + err.Error()}
		}
		defer who.Close()
	}
	proved := false // the server is who it should be
	config := &ssh.ClientConfig{
		User: user, HostKeyAlgorithms: algorithms, ClientVersion: "SSH-2.0-cloister",
		Auth: []ssh.AuthMethod{ssh.PublicKeys(who.Signers...)},
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			err := check(host, remote, key)
			proved = err == nil
			return err
		},
	}
	if w.conn, err = c.handshake(ctx, config, v.AskFirst); err == nil {
		return nil
	}
	return c.describe(err, v, proved)
}

// handshake opens a connection to the server and logs in there. Where a person is
// asked meanwhile, their time and the server's patience bound it.
func (c *sshConn) handshake(ctx context.Context, config *ssh.ClientConfig, asks bool) (ssh.Conn, error) {
	s := c.s
	raw, dialed, err := s.Session.Dialer.Dial(ctx, s.Target)
	if err != nil {
		return nil, err
	}
	if err := s.Conns.Attach(raw); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.dialed = dialed
	c.mu.Unlock()
	kept := s.Conns.Track(raw)
	unhook := context.AfterFunc(ctx, func() { _ = kept.Close() })
	defer unhook()
	if !asks {
		_ = raw.SetDeadline(time.Now().Add(s.Session.Limits.Idle)) // an agent of the person's may ask
	}
	conn, channels, requests, err := ssh.NewClientConn(kept, s.Target.String(), config)
	if err != nil {
		_ = kept.Close()
		return nil, err // describe words it
	}
	_ = raw.SetDeadline(time.Time{})
	c.all.Go(func() { ssh.DiscardRequests(requests) }) // both end with the connection
	c.all.Go(func() { refuseChannels(channels) })
	return conn, nil
}

// refuseChannels refuses what a server opens by itself: ports, screens, agents.
func refuseChannels(channels <-chan ssh.NewChannel) {
	for n := range channels {
		_ = n.Reject(ssh.Prohibited, "not here")
	}
}

// describe words why no one logged in.
func (c *sshConn) describe(err error, v verdict.Answer, proved bool) error {
	at := c.s.Target
	d := &dial.Error{Words: "log in to " + at.String() + ": it did not finish the SSH handshake", Err: err}
	key, wrong := errors.AsType[*shell.KeyError](err)
	_, apart := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	_, dialed := errors.AsType[*dial.Error](err)
	refused, unsigned := errors.AsType[*verdict.Refused](err)
	switch {
	case dialed, dial.Forbidden(err):
		return err
	case unsigned:
		d.Words, d.Hints, d.Err = "log in to "+at.String()+": "+refused.Verdict.Reason, refused.Verdict.Hints, nil
	case wrong && key.Changed:
		d.Words = key.Error()
		d.Hints = []string{fmt.Sprintf("if the new one is right, on the host: ssh-keygen -R %s, and log in once by ssh; or "+
			"in the rule: host_keys: [%q]", sshName(at), key.Key)}
	case wrong:
		d.Words = key.Error()
		d.Hints = []string{fmt.Sprintf("log in once by ssh on the host; or, if it is the right one, in the rule: "+
			"host_keys: [%q]", key.Key)}
	case apart:
		d.Words = "log in to " + at.String() +
			": it has no host key of a kind that is known on the host, or no cipher that is used here"
	case dial.IsTimeout(err), errors.Is(err, context.DeadlineExceeded):
		d.Words = "log in to " + at.String() + ": timed out"
	case proved && v.Identity == "":
		d.Words = "log in to " + at.String() +
			": the server wants a credential, and the rule names none; what a program inside has cannot pass through a login " +
			"that is read"
		d.Hints = []string{"in the rule: identity: agent, or identity: ~/.ssh/KEY"}
	case proved:
		d.Words = "log in to " + at.String() + ": the server did not take the identity " + dial.Quote(v.Identity)
	}
	return d
}

// sshName is a host as known_hosts has it.
func sshName(a authority.Authority) string {
	if a.Port() == 22 {
		return a.Host()
	}
	return fmt.Sprintf("'[%s]:%d'", a.Host(), a.Port())
}

// count tells a bound of bytes before they go up.
func (c *sshConn) count(n int, spend func(*quota.Host, int64) error) error {
	if err := spend(c.s.Session.Quota.Host(c.s.Target.Host()), int64(n)); err != nil {
		return c.refused(err)
	}
	c.s.BodiesUp.Add(int64(n))
	return nil
}
