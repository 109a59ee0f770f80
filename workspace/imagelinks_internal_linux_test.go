package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// A link of an image leads to a place of the image, however it is written.
func TestClosedThroughLinksOfAnImage(t *testing.T) {
	root, err := realpath.Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "only-in-the-image"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "only-in-the-image/secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{
		"relative": "../only-in-the-image/secret", "absolute": "/only-in-the-image/secret", "twice": "/etc/absolute",
		"out": "../../../../../../../../only-in-the-image/secret",
	}
	for name, to := range links { // one leads to another
		if err := os.Symlink(to, filepath.Join(root, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range links {
		t.Run(name, func(t *testing.T) {
			v := &View{}
			if err := v.close(Options{Root: root, Closed: []Closed{{Path: "/etc/" + name, Rule: "r"}}}); err != nil {
				t.Fatal(err)
			}
			if len(v.Protect) != 1 || v.Protect[0].Target != sandbox.GuestPath("/only-in-the-image/secret") {
				t.Errorf("covered: %+v", v.Protect)
			}
		})
	}
}

// What links of an image lead in circles cannot be covered, and is not taken for covered.
func TestClosedInCircles(t *testing.T) {
	root, err := realpath.Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("circle", filepath.Join(root, "circle")); err != nil {
		t.Fatal(err)
	}
	v, c := &View{}, Closed{Path: "/circle", Rule: "r", Place: "p:1:1", Residue: "w"}
	err = v.close(Options{Root: root, Closed: []Closed{c}})
	if not, ok := errors.AsType[*NotClosed](err); !ok || !strings.Contains(not.Why, "they lead in circles") {
		t.Errorf("%v, covered: %+v", err, v.Protect)
	}
	c.Accepted = true
	if err := v.close(Options{Root: root, Closed: []Closed{c}}); err != nil {
		t.Errorf("a person accepted it: %v", err)
	}
}
