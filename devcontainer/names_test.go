package devcontainer_test

import (
	"strings"
	"testing"

	"cloister/devcontainer"
)

func TestNamesOfADevcontainer(t *testing.T) {
	one := devcontainer.Devcontainer{File: ".devcontainer/devcontainer.json", Digest: "sha256:" + strings.Repeat("ab", 32)}
	other := one
	other.File = ".devcontainer/db/devcontainer.json"
	changed := one
	changed.Digest = "sha256:" + strings.Repeat("cd", 32)

	names := map[string]string{}
	add := func(what, name string) {
		if was := names[name]; was != "" {
			t.Errorf("%s and %s are both called %s", was, what, name)
		}
		names[name] = what
	}
	add("the cloister", one.CloisterName("/p"))
	add("the cloister of another file", other.CloisterName("/p"))
	add("the cloister of another project", one.CloisterName("/q"))
	add("the image", one.ImageName("/p", ""))
	add("the image of other bytes", changed.ImageName("/p", ""))
	add("the image of another file", other.ImageName("/p", ""))
	add("the image of a service", one.ImageName("/p", "db"))
	add("the image of another project", one.ImageName("/q", ""))
	if changed.CloisterName("/p") != one.CloisterName("/p") {
		t.Error("an edit of the file leaves the cloister that runs without its name")
	}
	if got := one.ImageName("/p", ""); !strings.HasPrefix(got, "devcontainer/") || !strings.HasSuffix(got, ":"+strings.Repeat("ab", 12)) {
		t.Errorf("image name %q", got)
	}
}
