package hostrules_test

import (
	"slices"
	"testing"

	"cloister/config"
	"cloister/hostexec/hostrules"
)

func TestShims(t *testing.T) {
	git := func(args ...string) config.CommandRule { return config.CommandRule{Program: "git", Args: args} }
	programs, remotes := hostrules.Shims(config.Hostexec{
		Shims: []string{"gh", "git"},
		ManualApprove: []config.CommandRule{
			git("push", "https://example.com/one.git", "main"), git("push", "https://example.com/one.git", "other"),
			git("fetch", "<URL>"), git("status"),
		},
		AutoApprove: []config.CommandRule{git("fetch", "https://example.com/two.git"), {Program: "gh", Args: []string{"push", "x"}}},
	})
	if !slices.Equal(programs, []string{"gh"}) {
		t.Errorf("programs %q", programs)
	}
	if !slices.Equal(remotes, []string{"https://example.com/one.git", "https://example.com/two.git"}) {
		t.Errorf("remotes %q", remotes)
	}
}
