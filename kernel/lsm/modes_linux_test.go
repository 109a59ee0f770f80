package lsm_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/kernel/lsm"
)

// eventsOf are those of one attempt, which came off.
func eventsOf(t *testing.T, s *lsm.Session, name string) (out []lsm.Event) {
	t.Helper()
	c := start(t, name, true)
	pid := c.cmd.Process.Pid
	if got := c.result(nil); got != "through" {
		t.Fatalf("%s: %s", name, got)
	}
	for {
		e, err := s.Read(time.Now().Add(-time.Second)) // what there is
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.PID == pid {
			out = append(out, e)
		}
	}
}

func has(list []lsm.Event, want func(e lsm.Event) bool) bool { return slices.ContainsFunc(list, want) }

// The same programs decide in all modes; what they would have refused is said, and let pass.
func TestKernelModes(t *testing.T) {
	s := begin(t)
	tree(t)
	p := lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{secret}}
	for _, c := range []struct {
		mode lsm.Mode
		want string
	}{{lsm.Enforce, "EACCES"}, {lsm.Shadow, "through"}, {lsm.Record, "through"}, {lsm.Enforce, "EACCES"}} {
		p.Mode = c.mode
		if err := s.Apply(os.Getpid(), p); err != nil {
			t.Fatal(err)
		}
		if got := start(t, "open deep", true).result(nil); !strings.HasPrefix(got, c.want) {
			t.Errorf("mode %d: %s, want %s", c.mode, got, c.want)
		}
	}
	p.Mode = lsm.Shadow
	if err := s.Apply(os.Getpid(), p); err != nil {
		t.Fatal(err)
	}
	if list := eventsOf(t, s, "open deep"); !has(list, func(e lsm.Event) bool {
		return e.Why == lsm.Forbidden && e.Let && e.Path == "/t/secret/deep/er/key" && e.Rule == "/t/secret"
	}) {
		t.Errorf("shadow says nothing of what it would have refused: %+v", list)
	}
	// What a guard refuses no mode lets pass.
	p.Guarded = true
	if err := s.Apply(os.Getpid(), p); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "signal another", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("in mode shadow, a guard: %s", got)
	}
}

// What is permitted is recorded once for each object, and how often more is a number.
func TestKernelRecords(t *testing.T) {
	s := begin(t)
	tree(t)
	if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Mode: lsm.Record}); err != nil {
		t.Fatal(err)
	}
	first := eventsOf(t, s, "used")
	for what, want := range map[string]func(e lsm.Event) bool{
		"a read":    func(e lsm.Event) bool { return e.Op == lsm.Opened && e.Path == "/t/open/file" && e.Need == lsm.Read },
		"a write":   func(e lsm.Event) bool { return e.Op == lsm.Opened && e.Path == "/t/kept/file" && e.Need&lsm.Write != 0 },
		"a folder":  func(e lsm.Event) bool { return e.Op == lsm.Opened && e.Path == "/t/open" && e.Folder },
		"a name":    func(e lsm.Event) bool { return e.Op == lsm.Created && e.Path == "/t/open/dir/new" },
		"a removal": func(e lsm.Event) bool { return e.Op == lsm.Removed && e.Path == "/t/open/dir/new" },
		"the program's words": func(e lsm.Event) bool {
			return e.Op == lsm.Executed && e.Path == "/init" && len(e.Words) > 0 && strings.HasSuffix(e.Words[0], "init")
		},
	} {
		if !has(first, func(e lsm.Event) bool { return e.Why == lsm.Allowed && want(e) }) {
			t.Errorf("%s is not recorded in %+v", what, first)
		}
	}
	before, err := s.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if again := eventsOf(t, s, "used"); has(again, func(e lsm.Event) bool { return e.Path == "/t/open/file" }) {
		t.Errorf("it is recorded again: %+v", again)
	}
	after, err := s.Counts()
	if err != nil || after.Repeated <= before.Repeated || after.Dropped != 0 {
		t.Errorf("from %+v to %+v, %v", before, after, err)
	}
	// A script, and what it was given to.
	script := start(t, "a script", true)
	if got := script.result(nil); got != "through" {
		t.Fatal(got)
	}
	var seen []lsm.Event
	for {
		e, err := s.Read(time.Now().Add(-time.Second))
		if err != nil {
			break
		}
		seen = append(seen, e)
	}
	if !has(seen, func(e lsm.Event) bool { return e.Op == lsm.Scripted && e.Path == "/t/bin/script" }) ||
		!has(seen, func(e lsm.Event) bool {
			return e.Op == lsm.Executed && e.Path == "/bin/busybox" && slices.Contains(e.Words, "/t/bin/script")
		}) {
		t.Errorf("of a script: %+v", seen)
	}
}
