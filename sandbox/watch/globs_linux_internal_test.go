//go:build linux

package watch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cloister/sandbox"
)

// A pattern refuses what it names, by its name; a call whose path cannot be read is refused where a
// pattern could have named that, and in no other session.
func TestRefuses(t *testing.T) {
	unread := errors.New("unread")
	pattern := sandbox.Judged{Path: "*.pem", In: "/p", Glob: true, Rule: "keys", Read: true, Write: true, Exec: true}
	for _, c := range []struct {
		name   string
		about  sandbox.Watched
		s      seen
		unread error
		want   bool
	}{
		{"what it names", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{pattern}}, seen{use: reads, path: "/p/x/a.pem"}, nil, true},
		{"below that", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{pattern}}, seen{use: makes, path: "/p/a.pem/b"}, nil, true},
		{"another folder", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{pattern}}, seen{use: reads, path: "/q/a.pem"}, nil, false},
		{"another name", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{pattern}}, seen{use: reads, path: "/p/a.pe"}, nil, false},
		{"shadow", sandbox.Watched{Rules: []sandbox.Judged{pattern}}, seen{use: reads, path: "/p/a.pem"}, nil, false},
		{"unread", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{pattern}}, seen{use: reads}, unread, true},
		{"unread, no pattern", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{{Path: "/p/a", Read: true}}}, seen{use: reads}, unread, false},
		{"no pattern", sandbox.Watched{Kept: true, Rules: []sandbox.Judged{{Path: "/p/a", Read: true}}}, seen{use: reads, path: "/p/a"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newTable(c.about, func(sandbox.FileEvent) {}).refuses(c.s, c.unread); got != c.want {
				t.Errorf("refused: %v", got)
			}
		})
	}
	bad := sandbox.Watched{Kept: true, Rules: []sandbox.Judged{{Path: "a**/b", In: "/p", Glob: true}}}
	if _, err := Filter(bad); err == nil {
		t.Error("a pattern that is none gives a filter")
	}
	if _, err := Filter(sandbox.Watched{Rules: []sandbox.Judged{{Path: "*.pem", Glob: true}}}); err == nil {
		t.Error("a pattern of no folder gives a filter")
	}
}

// The first rule that forbids is the one, however many there are, and each look costs as much.
func TestManyRules(t *testing.T) {
	about := sandbox.Watched{Kept: true}
	for i := range 20_000 {
		about.Rules = append(about.Rules, sandbox.Judged{Path: sandbox.GuestPath(fmt.Sprint("/p/f", i)), Rule: fmt.Sprint(i), Read: true})
	}
	about.Rules = append(about.Rules, sandbox.Judged{Path: "/p", Rule: "all", Read: true, Write: true})
	table := newTable(about, func(sandbox.FileEvent) {})
	for at, want := range map[string]string{"/p/f7": "7", "/p/f19999/x": "19999", "/p/other": "all", "/q": ""} {
		got := ""
		if r := table.verdict(seen{use: reads, path: at}); r != nil {
			got = r.Rule
		}
		if got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if r := table.verdict(seen{use: writes, path: "/p/f7"}); r == nil || r.Rule != "all" {
		t.Errorf("to write: %v", r)
	}
	began := time.Now()
	for range 10_000 {
		table.verdict(seen{use: reads, path: "/q/some/where/else"})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("10,000 looks took %v", took)
	}
}
