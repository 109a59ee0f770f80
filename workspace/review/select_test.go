package review_test

import (
	"slices"
	"testing"

	"cloister/workspace/review"
)

func twoProjects() (one, two *review.Project) {
	one = &review.Project{Root: "/p/one", Main: "/p/main", Entries: []review.Entry{
		{Path: ".git/hooks/x", By: "a", State: review.Waiting},
		{Path: "Makefile", By: "b", State: review.Waiting},
		{Path: "Makefile.old", By: "b", State: review.Waiting},
		{Path: "package.json", By: "b", State: review.Kept},
	}}
	return one, &review.Project{Root: "/p/two", Main: "/p/two"}
}

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name, here, whole string
		want              []string
	}{
		{"", "/p/one", "/p/one", []string{"/p/one"}},
		{"", "/p/main", "/p/main", []string{"/p/one"}}, // the repository of the worktree
		{"", "/p", "/p", nil},
		{"a", "", "/p/a", []string{"/p/one"}}, // a cloister
		{"two", "", "/p/two", []string{"/p/two"}},
		{"../two", "", "/p/two", []string{"/p/two"}},
		{"three", "", "/p/three", nil},
	} {
		one, two := twoProjects()
		var got []string
		for _, p := range review.Select([]*review.Project{one, two}, c.name, c.here, c.whole) {
			got = append(got, p.Root)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %q: %q, want %q", c.name, c.here, got, c.want)
		}
	}
}

func TestBelow(t *testing.T) {
	one, _ := twoProjects()
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"", ".", []string{".git/hooks/x", "Makefile", "Makefile.old"}},
		{"b", ".", []string{"Makefile", "Makefile.old"}}, // of that cloister alone
		{"one", ".git", []string{".git/hooks/x"}},        // the project's name
		{"", "./Makefile", []string{"Makefile"}},         // and no other of that beginning
		{"", "package.json", nil},                        // it was decided
		{"", "..", nil},
	} {
		if got := one.Below(c.name, c.path); !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, want %q", c.name, c.path, got, c.want)
		}
	}
}

func TestFitting(t *testing.T) {
	paths := []string{"aaaa", "bb", "cc"}
	for _, c := range []struct{ most, size, want int }{{10, 100, 3}, {2, 100, 2}, {10, 6, 2}, {10, 5, 1}, {10, 1, 1}} {
		if got := review.Fitting(paths, c.most, c.size); got != c.want {
			t.Errorf("%d paths of %d bytes: %d, want %d", c.most, c.size, got, c.want)
		}
	}
}
