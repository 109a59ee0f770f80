package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"cloister/api"
	"cloister/internal/shellword"
	"cloister/sandbox"
	"cloister/serve/files"
	"cloister/serve/wiring"
	"cloister/session/filerecord"
)

// Command is one command of a sandbox.
type Command struct {
	Cmd  string
	Args []string
	Env  map[string]string
	Dir  string
	Tag  *string
	// Stdin keeps the standard input open; else it is empty.
	Stdin bool
	// Cols and Rows ask for a terminal.
	Cols, Rows uint32
}

// Bounds of the commands of one sandbox that run at once, and of their words together,
// which are kept for listings.
const (
	maxProcesses = 512
	maxWords     = 8 << 20
)

// size is how much of a command is kept.
func (c Command) size() int {
	n := len(c.Cmd) + len(c.Dir)
	for _, a := range c.Args {
		n += len(a)
	}
	for name, value := range c.Env {
		n += len(name) + len(value)
	}
	if c.Tag != nil {
		n += len(*c.Tag)
	}
	return n
}

// entry gives what the driver needs, of a sandbox that runs.
func (s *Sandbox) entry() (Live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.State != Running || s.live == nil || s.ending {
		return Live{}, &NotRunning{s.record.ID}
	}
	return *s.live, nil
}

// exec runs a command in the sandbox's session.
func (l Live) exec(
	ctx context.Context, argv []string, env map[string]string, dir string, w sandbox.Wiring,
) (sandbox.Box, error) {
	spec := l.Spec
	spec.Argv = argv
	if dir != "" {
		spec.Dir = sandbox.GuestPath(dir)
	}
	spec.Env = wiring.WithEnv(spec.Env, env)
	return l.Driver.Exec(ctx, l.Handle, spec, w)
}

// program runs the program of serve/files.
func (s *Sandbox) program(ctx context.Context) (*files.Program, error) {
	return s.helper(ctx, "files")
}

// helper runs Cloister's own program in the sandbox.
func (s *Sandbox) helper(ctx context.Context, words ...string) (*files.Program, error) {
	live, err := s.entry()
	if err != nil {
		return nil, err
	}
	return s.host.helper(ctx, live, words...)
}

// helper runs Cloister's own program in a session, with pipes to both ends.
func (h *Host) helper(ctx context.Context, live Live, words ...string) (*files.Program, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	argv := append([]string{h.Program, "serve", Verb}, words...)
	box, err := live.exec(ctx, argv, nil, "/", sandbox.Wiring{Stdin: inR, Stdout: outW, Stderr: null})
	err = errors.Join(err, inR.Close(), outW.Close(), null.Close())
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	return &files.Program{In: inW, Out: outR, Close: func() error {
		err := errors.Join(inW.Close(), outR.Close(), box.Close())
		return err
	}}, nil
}

// Files gives the sandbox's files.
func (s *Sandbox) Files() (*files.Pool, error) {
	if _, err := s.entry(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool, nil
}

// Start runs a command. Its first output is the subscription's.
func (s *Sandbox) Start(ctx context.Context, c Command) (*Process, *Subscription, error) {
	if err := checkEnv(c.Env); err != nil {
		return nil, nil, err
	}
	if err := s.room(c); err != nil {
		return nil, nil, err
	}
	if err := s.recorded(ctx, ActCommand, "start", shellword.Line(append([]string{c.Cmd}, c.Args...)...)); err != nil {
		return nil, nil, err
	}
	live, err := s.entry()
	if err != nil {
		return nil, nil, err
	}
	w, own, err := wiring.Of(c.Stdin, c.Cols, c.Rows)
	if err != nil {
		return nil, nil, fmt.Errorf("start process: %w", err)
	}
	env := maps.Clone(s.Record().Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	seen, err := s.files(ctx, live).Begin()
	if err != nil {
		for _, f := range own.Theirs {
			f.Close()
		}
		own.Close()
		return nil, nil, &Over{err.Error()}
	}
	if live.Ask != nil {
		w.Ask = func(ctx context.Context, q sandbox.FileQuestion) error { return live.Ask(ctx, api.FileQuestion(q)) }
	}
	seen.Wire(&w)
	box, err := live.exec(ctx, append([]string{c.Cmd}, c.Args...), env, c.Dir, w)
	for _, f := range own.Theirs {
		f.Close()
	}
	if err != nil {
		own.Close()
		_, _ = seen.End() // nothing was seen
		return nil, nil, err
	}
	p := &Process{
		Command: c, box: box, stdin: own.Stdin, term: own.Term, subs: map[*Subscription]bool{}, done: make(chan struct{}),
	}
	u := p.Subscribe()
	s.mu.Lock()
	if s.procs == nil { // it ended meanwhile
		s.mu.Unlock()
		own.Close()
		err := box.Close()
		_, _ = seen.End() // what was seen is of a session that is over
		return nil, nil, errors.Join(&NotRunning{s.record.ID}, err)
	}
	s.next++
	p.PID = firstPID + s.next
	s.procs[p.PID] = p
	s.mu.Unlock()
	s.host.wg.Go(func() {
		p.run(own)
		s.missed(seen.End())
		s.mu.Lock()
		delete(s.procs, p.PID)
		s.mu.Unlock()
	})
	return p, u, nil
}

// files records what commands of the sandbox's session do with files and programs.
func (s *Sandbox) files(ctx context.Context, live Live) *filerecord.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = filerecord.NewSet(ctx, live.Files)
	}
	return s.seen
}

// missed says that events of files and programs were not recorded.
func (s *Sandbox) missed(n uint64, why error) {
	if n > 0 {
		s.host.Log.Error("record files and programs of a command", "sandbox", s.record.ID, "missed", n, "error", why)
	}
}

func (s *Sandbox) room(c Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := c.size()
	for _, p := range s.procs {
		words += p.Command.size()
	}
	if words > maxWords {
		return &Over{fmt.Sprintf("the commands of the sandbox have more than %d bytes of words", maxWords)}
	}
	if len(s.procs) >= maxProcesses {
		return &Over{fmt.Sprintf("the sandbox runs %d commands, which is the limit", len(s.procs))}
	}
	return nil
}
