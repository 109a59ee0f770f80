package heldpath_test

import (
	"strings"
	"testing"

	"cloister/session/heldpath"
)

func TestForCommand(t *testing.T) {
	for _, c := range []struct {
		verb string
		argv []string
		want string
	}{
		{"start", []string{"claude"}, "cloister start --expose x"},
		{"run", []string{"make", "all"}, "cloister run --expose x -- make all"},
		{"run", []string{"sh", "-c", "a\nb"}, "cloister run --expose x -- CMD"},
		{"run", []string{strings.Repeat("a", 61)}, "cloister run --expose x -- CMD"},
	} {
		if got := heldpath.ForCommand("/p", c.verb, c.argv).Allow("--expose x"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
