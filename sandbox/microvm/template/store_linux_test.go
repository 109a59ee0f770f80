package template_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cloister/sandbox/microvm/template"
)

// TestStore: a template is found by its shape, has the digest that it is named by, and is this user's alone.
func TestStore(t *testing.T) {
	s := template.Store{Dir: filepath.Join(t.TempDir(), "templates")}
	if _, _, err := s.Open("s"); !errors.Is(err, template.ErrNone) {
		t.Errorf("of none: %v", err)
	}
	if err := s.Make("s", write("text")); err != nil {
		t.Fatal(err)
	}
	f, its, err := s.Open("s")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if string(text) != "text" || its != digest(text) || err != nil {
		t.Errorf("%q, %s, %v", text, its, err)
	}
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("it was opened to write")
	}
	for at, want := range map[string]os.FileMode{s.Dir: 0o700, f.Name(): 0o600} {
		if fi, err := os.Stat(at); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has %v, %v", at, fi.Mode(), err)
		}
	}
	if err := s.Make("s", write("other")); err != nil {
		t.Fatal(err)
	}
	if names := files(t, s); !slices.Equal(names, []string{"lock", "s." + digest([]byte("other"))}) {
		t.Errorf("there are %q", names)
	}
}

// TestFolderOfPattern: a folder whose name is a pattern of names has its templates all the same, and nothing of a
// maker that was killed stays there.
func TestFolderOfPattern(t *testing.T) {
	s := template.Store{Dir: filepath.Join(t.TempDir(), "[a]*")}
	if err := s.Make("s", write("text")); err != nil {
		t.Fatal(err)
	}
	f, _, err := s.Open("s")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(filepath.Join(s.Dir, ".new-killed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Make("s", write("text")); err != nil {
		t.Fatal(err)
	}
	if names := files(t, s); !slices.Equal(names, []string{"lock", "s." + digest([]byte("text"))}) {
		t.Errorf("there are %q", names)
	}
}

// TestMakers: one makes at a time, what one leaves that fails or is killed is gone, and the oldest of all are.
func TestMakers(t *testing.T) {
	s := template.Store{Dir: filepath.Join(t.TempDir(), "templates")}
	failed := errors.New("no room")
	err := s.Make("s", func(f *os.File) error {
		if err := s.Make("s", write("second")); !errors.Is(err, template.ErrBusy) {
			t.Errorf("a second maker: %v", err)
		}
		return errors.Join(write("half")(f), failed)
	})
	if names := files(t, s); !errors.Is(err, failed) || !slices.Equal(names, []string{"lock"}) {
		t.Errorf("%v, and there are %q", err, names)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, ".new-killed"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range template.Most + 2 {
		shape := fmt.Sprint("s", i)
		if err := s.Make(shape, write(shape)); err != nil {
			t.Fatal(err)
		}
		when := now.Add(time.Duration(i-template.Most-2) * time.Minute)
		if err := os.Chtimes(filepath.Join(s.Dir, shape+"."+digest([]byte(shape))), when, when); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := 2; i < template.Most+2; i++ {
		shape := fmt.Sprint("s", i)
		want = append(want, shape+"."+digest([]byte(shape)))
	}
	if names := files(t, s); !slices.Equal(names, append([]string{"lock"}, want...)) {
		t.Errorf("there are %q, and not %q", names, want)
	}
}

// TestNotOurs: a template that another could have written is refused, and one that is too old is none.
func TestNotOurs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(at string) error
		none   bool
	}{
		"control": {change: func(string) error { return nil }},
		"a link": {change: func(at string) error {
			return errors.Join(os.Rename(at, filepath.Dir(at)+"/away"), os.Symlink("away", at))
		}},
		"a folder":           {change: func(at string) error { return errors.Join(os.Remove(at), os.Mkdir(at, 0o700)) }},
		"writable by others": {change: func(at string) error { return os.Chmod(at, 0o622) }},
		"of yesterday": {none: true, change: func(at string) error {
			old := time.Now().Add(-template.Lasts - time.Minute)
			return os.Chtimes(at, old, old)
		}},
		"of tomorrow": {none: true, change: func(at string) error {
			late := time.Now().Add(template.Lasts)
			return os.Chtimes(at, late, late)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := template.Store{Dir: filepath.Join(t.TempDir(), "templates")}
			if err := s.Make("s", write("text")); err != nil {
				t.Fatal(err)
			}
			if err := c.change(filepath.Join(s.Dir, "s."+digest([]byte("text")))); err != nil {
				t.Fatal(err)
			}
			f, _, err := s.Open("s")
			if err == nil {
				f.Close()
			}
			if (err == nil) != (name == "control") || errors.Is(err, template.ErrNone) != c.none {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFolderNotOurs: a folder that another can write, or that a link leads to, has no template.
func TestFolderNotOurs(t *testing.T) {
	dir := t.TempDir()
	s := template.Store{Dir: filepath.Join(dir, "templates")}
	if err := os.Symlink(t.TempDir(), s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Make("s", write("text")); err == nil {
		t.Error("by a link: made")
	}
	if err := errors.Join(os.Remove(s.Dir), os.Mkdir(s.Dir, 0o700), os.Chmod(s.Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := s.Make("s", write("text")); err == nil {
		t.Error("in a folder of all: made")
	}
	for range 2 { // what is our own stays
		if err := errors.Join(s.Clear(), s.Make("s", write("text")), s.Clear()); err != nil {
			t.Error(err)
		}
		if list, err := filepath.Glob(filepath.Join(s.Dir, "s.*")); err != nil || len(list) != 1 {
			t.Errorf("there are %q, %v", list, err)
		}
	}
}
