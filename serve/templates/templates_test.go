package templates_test

import (
	"errors"
	"fmt"
	"testing"

	"cloister/serve/templates"
)

func nothing(templates.Template) error { return nil }

// TestTemplates makes, builds and removes templates of the operator and of requests.
func TestTemplates(t *testing.T) {
	s := templates.Open(t.TempDir())
	image := templates.Made{Image: "sha256:1", Forbid: "forbid"}
	own, err := s.Put("own", image, true, nothing)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := s.Put("mine", templates.Made{}, false, nothing)
	if err != nil || mine.Made.Image != "" {
		t.Fatalf("%+v, %v", mine, err)
	}
	for what, err := range map[string]error{
		"a request changes the operator's": func() error { _, err := s.Put("own", templates.Made{}, false, nothing); return err }(),
		"and builds it":                    s.Finish(own.ID, own.Build, "sha256:2", nothing),
		"and removes it":                   s.Remove("own", false, nothing),
	} {
		if !errors.Is(err, templates.ErrOwn) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Finish(mine.ID, own.Build, "sha256:2", nothing); !errors.Is(err, templates.ErrBuild) {
		t.Errorf("another's build: %v", err)
	}
	refused := errors.New("not recorded")
	if err := s.Finish(mine.ID, mine.Build, "sha256:2", func(templates.Template) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("one that is not recorded: %v", err)
	}
	if got, err := s.Find("mine"); err != nil || got.Made.Image != "" {
		t.Errorf("it was built all the same: %+v, %v", got, err)
	}
	if err := s.Finish(mine.ID, mine.Build, "sha256:2", nothing); err != nil {
		t.Error(err)
	}
	if got, err := s.Find(mine.ID); err != nil || got.Made.Image != "sha256:2" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Find("own"); err != nil || got.Made != image {
		t.Errorf("the operator's: %+v, %v", got, err)
	}
	if _, err := s.Put(own.ID, templates.Made{}, false, nothing); !errors.Is(err, templates.ErrTaken) {
		t.Errorf("a request makes one that is found where the operator's is named by its ID: %v", err)
	}
	for _, bad := range []string{"", "base", "snapabc", "../x", "a b", "A", "-a", "a:b", "a/b"} {
		if _, err := s.Put(bad, image, true, nothing); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
	for i := 2; i < templates.Most; i++ {
		if _, err := s.Put(fmt.Sprint("t", i), image, true, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put("more", image, true, nothing); !errors.Is(err, templates.ErrFull) {
		t.Errorf("one more than there may be: %v", err)
	}
	if err := s.Remove(mine.ID, false, nothing); err != nil {
		t.Error(err)
	}
	if _, err := s.Find("mine"); !errors.Is(err, templates.ErrNone) {
		t.Errorf("removed: %v", err)
	}
}
