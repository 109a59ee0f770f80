package images

import (
	"strings"
	"testing"
)

// Flags that do not go together are refused before anything is fetched or built.
func TestBuildFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags buildFlags
		says  string // "" is that they go together
	}{
		{name: "the base image", flags: buildFlags{tag: "cloister-base"}},
		{name: "of this machine", flags: buildFlags{tag: "work:2", fromHost: true, packages: []string{"jq"}, agents: []string{"claude"}}},
		{name: "by a definition", flags: buildFlags{tag: "work", file: "env.Dockerfile", allow: []string{"example.com:443"}}},
		{name: "print and build", flags: buildFlags{tag: "work", show: true, file: "x"}, says: "--show"},
		{name: "a definition of this machine", flags: buildFlags{tag: "work", fromHost: true, file: "x"}, says: "--from-host"},
		{name: "network of this machine", flags: buildFlags{tag: "work", fromHost: true, allow: []string{"a.example"}}, says: "--from-host"},
		{name: "packages by an engine", flags: buildFlags{tag: "work", packages: []string{"jq"}}, says: "--package"},
		{name: "agents by an engine", flags: buildFlags{tag: "work", agents: []string{"claude"}}, says: "--agent"},
		{name: "an upper-case tag", flags: buildFlags{tag: "Work"}, says: "--tag"},
		{name: "a tag with a digest", flags: buildFlags{tag: "work@sha256:" + strings.Repeat("0", 64)}, says: "--tag"},
		{name: "a path for a tag", flags: buildFlags{tag: "./work"}, says: "--tag"},
		{name: "a destination that is none", flags: buildFlags{tag: "work", allow: []string{"http://a b"}}, says: "image build"},
	} {
		err := c.flags.check()
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
