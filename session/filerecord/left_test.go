package filerecord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloister/api"
	"cloister/sandbox"
	"cloister/session/filerecord"
)

// left is what a command left running.
type left struct {
	over   chan struct{}
	giveUp sync.Once
	given  bool
}

func (l *left) Close() error {
	<-l.over
	return nil
}

func (l *left) GiveUp() { l.giveUp.Do(func() { l.given = true; close(l.over) }) }

// What a command left running is recorded until it ends, its end is not waited for, and the end of
// all gives it up.
func TestWhatIsLeftIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		s := filerecord.NewSet(ctx, func(_ context.Context, list []api.FileEvent) error {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range list {
				got = append(got, e.Path)
			}
			return nil
		})
		first, second := begin(t, s), begin(t, s)
		one, two := &left{over: make(chan struct{})}, &left{over: make(chan struct{})}
		first.w.Watched(sandbox.FileEvent{Path: "/of/the/command"})
		first.w.Left(one)
		second.w.Left(two)
		began := time.Now()
		if missed, err := first.End(); missed > 0 || err != nil || time.Since(began) > time.Second {
			t.Errorf("missed %d, %v, after %v", missed, err, time.Since(began))
		}
		second.End()
		cancel() // whoever asked for the commands is gone
		first.w.Watched(sandbox.FileEvent{Path: "/of/what/it/left"})
		close(one.over)
		time.Sleep(time.Second) //nolint:forbidigo // the clock of the bubble
		mu.Lock()
		if fmt.Sprint(got) != "[/of/the/command /of/what/it/left]" {
			t.Errorf("recorded: %q", got)
		}
		mu.Unlock()
		if missed, err := s.Close(); missed > 0 || err != nil || !two.given || one.given {
			t.Errorf("at the end: missed %d, %v; given up: %v, %v", missed, err, one.given, two.given)
		}
		if _, err := s.Begin(); err == nil {
			t.Error("a command begins after the end")
		}
	})
}

// What a command leaves when all is over already is given up at once.
func TestLeftAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filerecord.NewSet(t.Context(), func(context.Context, []api.FileEvent) error { return errors.New("no guardian") })
		c := begin(t, s)
		l := &left{over: make(chan struct{})}
		c.w.Left(l)
		c.w.Watched(sandbox.FileEvent{Path: "/x"})
		if missed, _ := s.Close(); missed > 0 {
			t.Errorf("%d events of a command that runs", missed)
		}
		c.End()
		synctest.Wait()
		if missed, err := s.Close(); missed != 1 || err == nil || !l.given {
			t.Errorf("missed %d, %v, given up: %v", missed, err, l.given)
		}
	})
}

// So many commands may leave something; one more does not begin until something of that has ended.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filerecord.NewSet(t.Context(), func(context.Context, []api.FileEvent) error { return nil })
		var all []*left
		for range filerecord.MostLeft {
			c := begin(t, s)
			l := &left{over: make(chan struct{})}
			all = append(all, l)
			c.w.Left(l)
			c.End()
		}
		_, err := s.Begin()
		if full, ok := errors.AsType[*filerecord.Full](err); !ok || len(full.Hints()) == 0 {
			t.Fatalf("one more: %v", err)
		}
		close(all[3].over)
		synctest.Wait()
		begin(t, s).End()
		s.Close()
		for i, l := range all {
			if l.given != (i != 3) {
				t.Errorf("the %dth was given up: %v", i, l.given)
			}
		}
	})
}

type begun struct {
	*filerecord.Command
	w sandbox.Wiring
}

func begin(t *testing.T, s *filerecord.Set) *begun {
	t.Helper()
	c, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	b := &begun{Command: c}
	c.Wire(&b.w)
	return b
}
