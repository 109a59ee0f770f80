package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/workspace"
	"cloister/workspace/stubs"
)

// Names of files are held by empty files that git passes over, and both go with the
// last session, a sweep, or the next session after the machine went down.
func TestHeldNamesAreHiddenFromGit(t *testing.T) {
	const mine = "# mine\n*.swp\n"
	begin := func(t *testing.T, exclude string) (dir, file, locks string) {
		dir = filepath.Join(base(t), "p")
		repo(t, filepath.Join(dir, ".git"))
		file = filepath.Join(dir, ".git/info/exclude")
		write(t, file, exclude)
		return dir, file, filepath.Join(filepath.Dir(dir), "locks")
	}
	text := func(t *testing.T, file string) string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	kindOf := func(t *testing.T, dir string) os.FileMode {
		t.Helper()
		info, err := os.Lstat(filepath.Join(dir, ".envrc"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Type()
	}
	clean := func(t *testing.T, dir, file, want string) {
		t.Helper()
		if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
			t.Errorf("left: %v", got)
		}
		if got := text(t, file); got != want {
			t.Errorf("the exclude file says %q, want %q", got, want)
		}
	}

	t.Run("two sessions, and a person's line", func(t *testing.T) {
		dir, file, _ := begin(t, mine)
		first := plan(t, dir, workspace.Options{})
		if !kindOf(t, dir).IsRegular() || !strings.Contains(text(t, file), "\n/.envrc\n") {
			t.Fatalf("held by %v; the exclude file: %s", kindOf(t, dir), text(t, file))
		}
		second := plan(t, dir, workspace.Options{})
		if n := strings.Count(text(t, file), "/.envrc\n"); n != 1 {
			t.Errorf("it stands there %d times", n)
		}
		write(t, file, text(t, file)+"later\n")
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text(t, file), "/.envrc") {
			t.Error("it was taken away under a living session")
		}
		if err := second.Release(); err != nil {
			t.Fatal(err)
		}
		clean(t, dir, file, mine+"later\n")
	})
	t.Run("a file that a person filled", func(t *testing.T) {
		dir, file, _ := begin(t, mine)
		v := plan(t, dir, workspace.Options{})
		write(t, filepath.Join(dir, ".npmrc"), "x=y\n")
		if err := v.Release(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); !slices.Equal(got, []string{".git", ".npmrc"}) || text(t, file) != mine {
			t.Errorf("left: %v, %q", got, text(t, file))
		}
	})
	t.Run("a crash, swept", func(t *testing.T) {
		dir, file, locks := begin(t, mine)
		v := plan(t, dir, workspace.Options{})
		name := filepath.Join(locks, only(t, locks, "*.stubs"))
		journal := text(t, name)
		held := text(t, file)
		if err := v.Release(); err != nil {
			t.Fatal(err)
		}
		write(t, file, held)
		write(t, filepath.Join(dir, ".envrc"), "")
		write(t, name, journal)
		if err := stubs.Sweep(locks); err != nil {
			t.Fatal(err)
		}
		clean(t, dir, file, mine)
	})
	t.Run("the machine went down", func(t *testing.T) {
		dir, file, _ := begin(t, mine)
		v := plan(t, dir, workspace.Options{})
		held := text(t, file)
		if err := v.Release(); err != nil {
			t.Fatal(err)
		}
		write(t, file, held)
		write(t, filepath.Join(dir, ".envrc"), "")
		write(t, filepath.Join(dir, ".npmrc"), "x=y\n")
		if err := plan(t, dir, workspace.Options{}).Release(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); !slices.Equal(got, []string{".git", ".npmrc"}) || text(t, file) != mine {
			t.Errorf("left: %v, %q", got, text(t, file))
		}
	})
	for name, change := range map[string]func(file string) error{
		"no exclude file": os.Remove,
		"a link": func(file string) error {
			if err := os.Rename(file, file+"-real"); err != nil {
				return err
			}
			return os.Symlink(file+"-real", file)
		},
		"a line in the making": func(file string) error { return os.WriteFile(file, []byte("half"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, file, _ := begin(t, mine)
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(file)
			v := plan(t, dir, workspace.Options{})
			if after, _ := os.ReadFile(file); kindOf(t, dir) != os.ModeSocket || string(after) != string(before) {
				t.Errorf("held by %v; the exclude file says %q", kindOf(t, dir), after)
			}
			if err := v.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
