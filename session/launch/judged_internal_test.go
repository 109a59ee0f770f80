package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/config"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/sandbox/judge"
)

func TestUnjudged(t *testing.T) {
	missing := &sandbox.Unsupported{Guarantee: "g", Reason: "no types\nof the kernel", Fix: "boot another"}
	got := unjudged("native", missing)
	for _, want := range []string{"does not judge", "the view and Landlock keep", "no types; of the kernel", "to have it: boot another"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := unjudged("docker", errors.New("broken")); strings.Contains(got, "Landlock") || !strings.HasSuffix(got, ": broken") {
		t.Errorf("of containers: %q", got)
	}
}

// What the kernel's judge keeps in a container, and what nothing does there.
func TestKeptInContainers(t *testing.T) {
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "p.cedar", Text: []byte(`
@id("folder") forbid (principal, action == Action::"ProcessExec", resource in Dir::"/work/tools");
@id("file") forbid (principal, action == Action::"FileOpen", resource == File::"/work/secret");
@id("list") permit (principal, action == Action::"FileOpen", resource in Dir::"/work");
@id("digest") permit (principal, action == Action::"ProcessExec", resource == Program::"/usr/bin/make@sha256:` +
		strings.Repeat("0", 64) + `");
@id("not-this") forbid (principal, action == Action::"ProcessExec", resource == Program::"/usr/bin/make@sha256:` +
		strings.Repeat("0", 64) + `");
@id("pattern") forbid (principal, action == Action::"FileOpen", resource in Glob::"**/*.key");
@id("asks") @ask permit (principal, action == Action::"FileOpen", resource == File::"/work/asked");`)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		judge *judge.Kernel
		mode  string
		want  []string
	}{
		{nil, "enforce", []string{"file"}},
		{&judge.Kernel{}, "enforce", []string{"file", "folder", "list"}},
		{&judge.Kernel{}, "shadow", []string{"asks", "file", "folder", "list", "pattern"}},
	} {
		p := &Plan{Judge: c.judge}
		p.keep(Order{Mode: c.mode}, Facts{Isolation: "docker", Config: &config.Config{}}, list)
		slices.Sort(p.Closed)
		if got := slices.Compact(p.Closed); !slices.Equal(got, c.want) {
			t.Errorf("judged %v, mode %s: kept are %q, not %q", c.judge != nil, c.mode, got, c.want)
		}
		if shown := c.mode == "shadow"; p.reports != shown || len(p.View.Closed) == 0 != shown || p.Watched.ByName {
			t.Errorf("judged %v, mode %s: reports %v, closes %+v, by name %v", c.judge != nil, c.mode, p.reports, p.View.Closed, p.Watched.ByName)
		}
		if p.Permits.Programs || p.Permits.Opens != (c.judge != nil && c.mode == "enforce") {
			t.Errorf("judged %v, mode %s: lists %+v", c.judge != nil, c.mode, p.Permits)
		}
	}
}
