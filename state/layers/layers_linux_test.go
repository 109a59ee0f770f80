package layers_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// make writes a tree: "path=text" is a file, "path/" a folder, "path->to" a link,
// "path!" a whiteout, "path/*" an opaque folder, "path@600=text" a file of a mode.
func makeTree(t *testing.T, entries ...string) string {
	t.Helper()
	top := t.TempDir()
	for _, e := range entries {
		var err error
		full := func(name string) string {
			p := filepath.Join(top, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			return p
		}
		if name, text, ok := strings.Cut(e, "="); ok {
			mode := os.FileMode(0o644)
			if n, m, ok := strings.Cut(name, "@"); ok {
				name = n
				for _, d := range m {
					mode = mode<<3 | os.FileMode(d-'0')
				}
				mode &= 0o777
			}
			p := full(name)
			if err = os.WriteFile(p, []byte(text), 0o600); err == nil {
				err = os.Chmod(p, mode)
			}
		} else if name, to, ok := strings.Cut(e, "->"); ok {
			err = os.Symlink(to, full(name))
		} else if name, ok := strings.CutSuffix(e, "!"); ok {
			err = unix.Mknod(full(name), unix.S_IFCHR, 0)
		} else if name, ok := strings.CutSuffix(e, "/*"); ok {
			p := full(name)
			if err = os.MkdirAll(p, 0o755); err == nil {
				err = unix.Setxattr(p, "user.overlay.opaque", []byte("y"), 0)
			}
		} else {
			err = os.MkdirAll(full(e), 0o755)
		}
		if err != nil {
			t.Fatal(e, err)
		}
	}
	return top
}

func show(list []layers.Change) []string {
	var out []string
	for _, c := range list {
		line := string(c.Op) + " " + c.Path
		if c.From != "" {
			line += " from " + c.From
		}
		if c.Implied {
			line += " implied"
		}
		out = append(out, line)
	}
	return out
}

func TestChanges(t *testing.T) {
	base := []string{"a=one\n", "b=two\n", "l->a", "d/x=x\n", "d/y=y\n", "e/z=z\n", "m@755=run\n", "e/deep/er=1\n"}
	for name, tt := range map[string]struct {
		layers [][]string // the newest first
		want   []string
	}{
		"nothing":            {[][]string{{}}, nil},
		"the same content":   {[][]string{{"a=one\n"}}, nil},
		"modified":           {[][]string{{"a=ONE\n"}}, []string{"modified a"}},
		"longer":             {[][]string{{"a=one two\n"}}, []string{"modified a"}},
		"mode":               {[][]string{{"m@644=run\n"}}, []string{"mode m"}},
		"added":              {[][]string{{"n=new\n"}}, []string{"added n"}},
		"added below":        {[][]string{{"n/o/p=new\n"}}, []string{"added n implied", "added n/o implied", "added n/o/p"}},
		"an empty folder":    {[][]string{{"n/"}}, []string{"added n"}},
		"removed":            {[][]string{{"b!"}}, []string{"deleted b"}},
		"removed twice":      {[][]string{{"b!"}, {"b=other\n"}}, []string{"deleted b"}},
		"back again":         {[][]string{{"b=two\n"}, {"b!"}}, nil},
		"never was":          {[][]string{{"q!"}}, nil},
		"a folder removed":   {[][]string{{"d!"}}, []string{"deleted d implied", "deleted d/x", "deleted d/y"}},
		"an opaque folder":   {[][]string{{"d/*", "d/y=y\n"}}, []string{"deleted d/x"}},
		"opaque in between":  {[][]string{{"d/n=1\n"}, {"d/*"}, {"d/old=1\n"}}, []string{"added d/n", "deleted d/x", "deleted d/y"}},
		"opaque, deep":       {[][]string{{"e/*", "e/deep/"}}, []string{"deleted e/deep/er", "deleted e/z"}},
		"link":               {[][]string{{"l->b"}}, []string{"modified l"}},
		"file to link":       {[][]string{{"a->b"}}, []string{"modified a"}},
		"file to folder":     {[][]string{{"a/in=1\n"}}, []string{"deleted a", "added a implied", "added a/in"}},
		"folder to file":     {[][]string{{"d=1\n"}}, []string{"deleted d implied", "added d", "deleted d/x", "deleted d/y"}},
		"renamed":            {[][]string{{"b!", "c=two\n"}}, []string{"renamed c from b"}},
		"newest layer first": {[][]string{{"a=3\n"}, {"a=2\n", "n=2\n"}}, []string{"modified a", "added n"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stack []string
			for _, l := range tt.layers {
				stack = append(stack, makeTree(t, l...))
			}
			s, err := layers.Open(makeTree(t, base...), stack)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := s.Changes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A payload can take every right from its own files; they are compared all the same,
// and keep their modes.
func TestClosedModes(t *testing.T) {
	base, upper := makeTree(t, "a=one\n"), makeTree(t, "a@000=two\n", "d/x@000=x\n")
	if err := os.Chmod(filepath.Join(upper, "d"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(upper, "d"), 0o700) })
	s, err := layers.Open(base, []string{upper})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"modified a", "added d implied", "added d/x"}; !slices.Equal(show(got), want) {
		t.Errorf("got %q", show(got))
	}
	for _, name := range []string{"a", "d"} {
		if fi, err := os.Lstat(filepath.Join(upper, name)); err != nil || fi.Mode().Perm() != 0 {
			t.Errorf("%s has mode %v now", name, fi.Mode())
		}
	}
}

// A checkpoint of a running cloister copies closed folders with what is in them, also
// a second name of a file, and both keep their modes.
func TestClosedModesAreCopied(t *testing.T) {
	upper, to := makeTree(t, "d/in/x@000=x\n", "y=y\n"), filepath.Join(t.TempDir(), "up")
	closed := []string{"d/in", "d", "."}
	for _, err := range []error{
		os.Mkdir(to, 0o700), os.Link(filepath.Join(upper, "d/in/x"), filepath.Join(upper, "z")),
		os.Link(filepath.Join(upper, "y"), filepath.Join(upper, "d/y")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range closed {
		if err := os.Chmod(filepath.Join(upper, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, top := range []string{to, upper} {
			for _, name := range slices.Backward(closed) {
				_ = os.Chmod(filepath.Join(top, name), 0o700)
			}
		}
	})
	if err := layers.Copy(t.Context(), upper, to); err != nil {
		t.Fatal(err)
	}
	was, err := layers.Summary(upper)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := layers.Summary(to); err != nil || is != was || is.Bytes != 8 {
		t.Errorf("the copy is another one: %+v, %v", is, err)
	}
	for _, name := range []string{filepath.Join(to, "d"), upper} {
		if fi, err := os.Lstat(name); err != nil || fi.Mode().Perm() != 0 {
			t.Errorf("%s has mode %v now, %v", name, fi.Mode(), err)
		}
	}
	if err := layers.RemoveAll(filepath.Dir(to), "up"); err != nil {
		t.Error(err)
	}
}

// Many readers of one closed folder do not take it from each other.
func TestClosedModesTogether(t *testing.T) {
	base, upper := makeTree(t), makeTree(t, "d/0@000=0", "d/1@000=1", "d/2@000=2", "d/3@000=3")
	if err := os.Chmod(filepath.Join(upper, "d"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(upper, "d"), 0o700) })
	s, err := layers.Open(base, []string{upper})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for range 50 {
		for _, c := range list[1:] {
			group.Go(func() error {
				f, err := s.OpenNew(c)
				if err == nil {
					err = f.Close()
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Lstat(filepath.Join(upper, "d")); err != nil || fi.Mode().Perm() != 0 {
		t.Errorf("the folder has mode %v now, %v", fi.Mode(), err)
	}
}

// No name in a layer leads the walk out of it.
func TestLinksAreNotFollowed(t *testing.T) {
	outside := makeTree(t, "secret=1\n")
	s, err := layers.Open(makeTree(t, "d/x=1\n"), []string{makeTree(t, "d->"+outside)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"deleted d implied", "added d", "deleted d/x"}; !slices.Equal(show(got), want) {
		t.Errorf("got %q", show(got))
	}
}

func TestTooDeep(t *testing.T) {
	s, err := layers.Open(makeTree(t), []string{makeTree(t, strings.Repeat("d/", 300))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Changes(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 256 folders") {
		t.Errorf("got %v", err)
	}
}

// What is written is what there was when it was taken, whatever was done since.
func TestTakeIsOfOneMoment(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	large := strings.Repeat("large\n", 20_000)
	put := func(name, text string) {
		at := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put("d/small", "then")
	put("d/large", large)
	taken, err := layers.Take(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	put("d/small", "later")
	put("d/large", "later")
	put("new", "later")
	if err := taken.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"d/small": "then", "d/large": large} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != want {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(text), len(want), err)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "new")); err == nil {
		t.Error("what came later was copied")
	}
}
