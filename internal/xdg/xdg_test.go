package xdg_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/xdg"

	"github.com/google/go-cmp/cmp"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) string { return m[k] }
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		name   string
		getenv func(string) string
		home   string
		want   xdg.Dirs
	}{
		{"nothing set", env(), "/home/ada", xdg.Dirs{
			Config: "/home/ada/.config/cloister", State: "/home/ada/.local/state/cloister",
			Data: "/home/ada/.local/share/cloister", Runtime: "/tmp/cloister-7",
		}},
		{"everything set, no home", env("XDG_CONFIG_HOME", "/c", "XDG_STATE_HOME", "/s", "XDG_DATA_HOME", "/d", "XDG_RUNTIME_DIR", "/r"), "", xdg.Dirs{
			Config: "/c/cloister", State: "/s/cloister", Data: "/d/cloister", Runtime: "/r/cloister",
		}},
		{"a relative folder counts as unset", env("XDG_CONFIG_HOME", "c", "XDG_RUNTIME_DIR", "."), "/h", xdg.Dirs{
			Config: "/h/.config/cloister", State: "/h/.local/state/cloister",
			Data: "/h/.local/share/cloister", Runtime: "/tmp/cloister-7",
		}},
		{"spaces and unicode", env("XDG_RUNTIME_DIR", "/r/ä ö"), "/home/Zoë M", xdg.Dirs{
			Config: "/home/Zoë M/.config/cloister", State: "/home/Zoë M/.local/state/cloister",
			Data: "/home/Zoë M/.local/share/cloister", Runtime: "/r/ä ö/cloister",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := xdg.Resolve(tt.getenv, 7, tt.home)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		getenv func(string) string
		home   string
		want   string
	}{
		{"no home", env(), "", "neither XDG_CONFIG_HOME nor HOME"},
		{"a relative home", env(), "home", "neither XDG_CONFIG_HOME nor HOME"},
		{"a line break", env("XDG_STATE_HOME", "/a\nb"), "/h", "line break"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := xdg.Resolve(tt.getenv, 7, tt.home)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestRuntimeFolderTooLongForASocket(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range []string{"/a/" + strings.Repeat("r", 100), "/b/" + strings.Repeat("r", 100), "/c"} {
		d, err := xdg.Resolve(env("XDG_RUNTIME_DIR", dir), 7, "/h")
		if err != nil || len(d.Runtime) > 89 || seen[d.Runtime] {
			t.Errorf("%s: %s, %v", dir, d.Runtime, err)
		}
		seen[d.Runtime] = true
		if again, _ := xdg.Resolve(env("XDG_RUNTIME_DIR", dir), 7, "/h"); again.Runtime != d.Runtime {
			t.Errorf("%s: %s, then %s", dir, d.Runtime, again.Runtime)
		}
	}
}

func TestInstancesStayApartWithoutARuntimeFolder(t *testing.T) {
	a, errA := xdg.Resolve(env("XDG_STATE_HOME", "/a"), 7, "/h")
	b, errB := xdg.Resolve(env("XDG_STATE_HOME", "/b"), 7, "/h")
	again, errC := xdg.Resolve(env("XDG_STATE_HOME", "/a/"), 7, "/h")
	if errA != nil || errB != nil || errC != nil {
		t.Fatal(errA, errB, errC)
	}
	if a.Runtime == b.Runtime {
		t.Errorf("two instances share %s", a.Runtime)
	}
	if a.Runtime != again.Runtime {
		t.Errorf("one instance has two folders: %s, %s", a.Runtime, again.Runtime)
	}
}

func TestPrivate(t *testing.T) {
	uid := os.Getuid()
	t.Run("made where missing", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if err := xdg.Private(dir, uid); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v", info, err)
		}
	})
	t.Run("closed to others", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "open")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := xdg.Private(dir, uid); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v", info, err)
		}
	})
	t.Run("a symbolic link is refused", func(t *testing.T) {
		dir := t.TempDir()
		link := filepath.Join(dir, "link")
		if err := os.Symlink(t.TempDir(), link); err != nil {
			t.Fatal(err)
		}
		if err := xdg.Private(link, uid); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("somebody else's is refused", func(t *testing.T) {
		if err := xdg.Private(t.TempDir(), uid+1); err == nil || !strings.Contains(err.Error(), "somebody else") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file is refused", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := xdg.Private(file, uid); err == nil {
			t.Error("a file passed for a private folder")
		}
	})
}
