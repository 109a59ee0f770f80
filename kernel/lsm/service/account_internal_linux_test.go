package service

import (
	"strings"
	"testing"
)

// The uids that a user was given besides its own are counted as the user.
func TestOwnerOf(t *testing.T) {
	const text = "# comment\nann:100000:65536\nbob:165536:65536\n1003:300000:10\ngone:400000:100\nann:500000:1\nodd\nodd:x:5\n" +
		"odd:600000:\n"
	known := map[string]int{"ann": 1000, "bob": 1001}
	find := func(name string) (int, bool) { n, ok := known[name]; return n, ok }
	for _, c := range []struct{ uid, want int }{
		{1000, 1000}, {99999, 99999}, {100000, 1000}, {165535, 1000}, {165536, 1001}, {231071, 1001}, {231072, 231072},
		{300009, 1003}, {300010, 300010}, {400000, 400000}, {400099, 400000}, {500000, 1000}, {500001, 500001},
		{600000, 600000}, {0, 0},
	} {
		if got, err := ownerOf(strings.NewReader(text), c.uid, find); got != c.want || err != nil {
			t.Errorf("uid %d is counted as %d, %v; want %d", c.uid, got, err, c.want)
		}
	}
	if _, err := ownerOf(strings.NewReader(strings.Repeat("x", 1<<20)), 5, find); err == nil {
		t.Error("a file that is not read whole is believed")
	}
}
