package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/serve/files"
	"cloister/serve/tenants"
)

// elsewhere is a driver whose boxes are on another host.
type elsewhere struct{ sandbox.Driver }

func (elsewhere) OnAnotherHost() {}

// sessionless is an engine whose sessions are over.
type sessionless struct{ Engine }

func (sessionless) Stop(context.Context, Place, string, string) error { return ErrNoSession }

// TestPauseThatDoesNotCome: a payload stops the program that packs the sandbox's files. The sandbox can be ended
// nevertheless, and the looks at it do not pile up meanwhile.
func TestPauseThatDoesNotCome(t *testing.T) {
	register, err := tenants.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Options: Options{Tenants: register, Engine: sessionless{}, Log: slog.New(slog.DiscardHandler)},
		undone: map[*Sandbox]undone{}}
	asked := make(chan struct{}, 1)
	s := &Sandbox{host: h, tenant: tenants.Tenant{Name: "acme", Limits: tenants.Usual()}, live: &Live{Driver: elsewhere{}},
		record: Record{ID: "i", Tenant: "acme", State: Running, AutoPause: true, KeepDisk: true, End: time.Now().Add(-time.Second)}}
	s.pool = &files.Pool{Start: func(context.Context) (*files.Program, error) { // it answers nothing
		inR, inW, err := os.Pipe()
		outR, outW, oerr := os.Pipe()
		asked <- struct{}{}
		return &files.Program{In: inW, Out: outR, Close: func() error {
			return errors.Join(inR.Close(), inW.Close(), outR.Close(), outW.Close())
		}}, errors.Join(err, oerr)
	}}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	does := func(what string, f func(context.Context) error) <-chan error {
		over := make(chan error, 1)
		go func() { over <- f(context.WithoutCancel(t.Context())) }()
		t.Log(what)
		return over
	}
	first := does("its time is over", s.expire)
	<-asked // the control: it is being packed
	select {
	case err := <-first:
		t.Fatalf("the pause ended: %v", err)
	case <-does("the next look", s.expire):
	case <-time.After(time.Minute):
		t.Error("the next look at it waits for the one before")
	}
	select {
	case <-does("a person ends it", s.Kill):
	case <-time.After(time.Minute):
		t.Fatal("it cannot be ended")
	}
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the pause: %v", err)
	}
}

// TestFilesThatCannotBeKept: a sandbox whose files cannot be kept ends all the same, when its time is over for a while.
func TestFilesThatCannotBeKept(t *testing.T) {
	register, err := tenants.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Options: Options{Tenants: register, Engine: sessionless{}, Log: slog.New(slog.DiscardHandler)},
		undone: map[*Sandbox]undone{}}
	for _, tt := range []struct {
		since time.Duration
		want  State
	}{{time.Second, Running}, {2 * keepFor, ended}} {
		s := &Sandbox{host: h, tenant: tenants.Tenant{Name: "acme", Limits: tenants.Usual()}, live: &Live{Driver: elsewhere{}},
			record: Record{ID: "i", Tenant: "acme", State: Running, AutoPause: true, KeepDisk: true, End: time.Now().Add(-tt.since)}}
		s.pool = &files.Pool{Start: func(context.Context) (*files.Program, error) { return nil, errors.New("it was ended") }}
		if err := os.MkdirAll(s.dir(), 0o700); err != nil {
			t.Fatal(err)
		}
		err := s.expire(t.Context())
		if got := s.Record().State; got != tt.want {
			t.Errorf("%v after its end it is %s: %v", tt.since, got, err)
		}
	}
}
