package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"cloister/api"
	"cloister/api/client"
	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/sandbox/judge"
)

// Statements are what is said of files and programs, as a box keeps it.
type Statements struct {
	Judged  []sandbox.Judged
	Permits sandbox.Permits
	Watched sandbox.Watched
}

// judging is the kernel's judge of a box, once it has one.
type judging struct {
	mu sync.Mutex
	of *judge.Judge
}

// begin is a driver's way to the kernel's judge.
func (j *judging) begin(k *judge.Kernel, tell func(sandbox.FileEvent)) sandbox.Judging {
	return func(ctx context.Context, group string, pid int, spec sandbox.Spec, lost func(error)) (io.Closer, error) {
		of, err := k.Begin(ctx, group, pid, spec, tell, lost)
		if err != nil {
			return nil, err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.of = of
		return of, nil
	}
}

// change has the kernel's judge go on under other statements.
func (j *judging) change(spec sandbox.Spec) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.of == nil {
		return errors.New("the kernel's judge does not rule it, and its view and lists are made once: start it anew")
	}
	return j.of.Apply(spec)
}

// follow puts statements that the guardian sends in force, and passes its notices on, until stop is called.
func (s *Shim) follow(link *client.Link, j *judging, spec sandbox.Spec) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case text := <-link.Notices():
				if s.Notify != nil {
					s.Notify(termsafe.Text(text))
				}
			case f := <-link.Files():
				a := api.Applied{Number: f.Number}
				if same, err := s.restate(j, spec, f.Cedar); err != nil {
					a.Reason = strings.ReplaceAll(err.Error(), "\n", "; ")
				} else {
					a.Same = same
				}
				link.Applied(a)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// restate puts statements in force, unless they are the same.
func (s *Shim) restate(j *judging, spec sandbox.Spec, files []api.CedarFile) (same bool, err error) {
	if s.Restate == nil {
		return false, errors.New("a service beside another cloister takes no other statements: start it anew")
	}
	next, put, err := s.Restate(files)
	if err != nil || next == nil {
		return true, err
	}
	asked := spec.Watched.Asked // the view's, which is made once
	spec.Judged, spec.Permits, spec.Watched = next.Judged, next.Permits, next.Watched
	spec.Watched.Asked = asked
	if err := j.change(spec); err != nil {
		return false, err
	}
	put()
	return false, nil
}
