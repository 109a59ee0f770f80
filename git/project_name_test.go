package git_test

import (
	"testing"

	"cloister/git"
)

// TestOwnsBranch: no branch that a session may bring is another session's own.
func TestOwnsBranch(t *testing.T) {
	one := "1111111111111111111111111111111111111111"
	for name, want := range map[string]bool{"k": true, "k.v1": true, "K_2": true, "k-kept": false, "k-uncommitted": false, "k.lock": false, "k.": false} {
		u := git.Update{Ref: "refs/heads/" + git.ProjectBranch(name), New: one}
		if git.OwnsBranch(name) != want || u.MayBring(name) != want {
			t.Errorf("%s: %v, %v", name, git.OwnsBranch(name), u.MayBring(name))
		}
	}
	kept := git.Update{Ref: "refs/heads/" + git.ProjectBranch("k-kept"), New: one}
	if !kept.MayBring("k") || kept.MayBring("kept") {
		t.Error("of k it is, and of no other")
	}
}
