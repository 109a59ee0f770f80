package pathglob_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/internal/pathglob"
)

func found(s *pathglob.Set, at string) []int {
	var out []int
	s.Match(at, func(n int) bool {
		out = append(out, n)
		return false
	})
	slices.Sort(out)
	return out
}

// A set names what its patterns do, one by one.
func TestSetIsItsPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(list ...string) string { return list[r.IntN(len(list))] }
	text := func(n int, list ...string) string {
		var names []string
		for range 1 + r.IntN(n) {
			names = append(names, word(list...))
		}
		return strings.Join(names, "/")
	}
	hits := 0
	for range 3000 {
		var s pathglob.Set
		var list []pathglob.Pattern
		for i := range 1 + r.IntN(8) {
			p, err := pathglob.Parse(word("", "/p/") + text(4, "**", "a", "b", "*", "a*", "*b", "?", "a?b", "*a*", "ü*", "*ü"))
			if err != nil {
				continue
			}
			p = p.In("/p")
			list = append(list, p)
			s.Add(p, len(list)-1)
			_ = i
		}
		for range 20 {
			at := word("/p/", "/", "/q/") + text(5, "a", "b", "ab", "aab", "xaby", "ü", "aü", "p")
			var want []int
			for i, p := range list {
				if p.Match(at) {
					want = append(want, i)
				}
			}
			hits += len(want)
			if got := found(&s, at); !slices.Equal(got, want) {
				t.Fatalf("%s by %v: %v, want %v", at, list, got, want)
			}
		}
	}
	if hits < 1000 {
		t.Errorf("%d matches in all: nothing was compared", hits)
	}
}

// What 10,000 patterns cost does not grow with them.
func TestSetIsQuick(t *testing.T) {
	for _, form := range []string{"**/*.k%d", "gen%d/**/*.k", "k%d*", "a/**/b%d/**/*.c"} {
		least := func(n int) time.Duration {
			var s pathglob.Set
			for i := range n {
				p, err := pathglob.Parse(fmt.Sprintf(form, i))
				if err != nil {
					t.Fatal(err)
				}
				s.Add(p.In("/home/you/src/project"), i)
			}
			best := time.Hour
			for range 20 {
				began := time.Now()
				for range 50 {
					found(&s, "/home/you/src/project/a/x/y/z/file.c")
				}
				best = min(best, time.Since(began))
			}
			return best
		}
		if few, many := least(10), least(10_000); many > 20*few+5*time.Millisecond {
			t.Errorf("%s: 50 looks take %v with 10 patterns and %v with 10,000", form, few, many)
		}
	}
}
