package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
)

func TestToolchains(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, project := filepath.Join(base, "home"), filepath.Join(base, "home/code/p")
	for _, f := range []string{
		".nvm/versions/node/v1/bin/node", ".nvm/versions/node/v1/lib/x", ".pyenv/shims/python", ".pyenv/.git/HEAD", ".pyenv/versions/3/bin/python",
		".cargo/bin/cargo", ".cargo/credentials.toml", ".rustup/settings.toml", "go/bin/tool", "go/pkg/mod/x", ".fly/bin/fly", ".fly/config.yml",
		".npm-global/bin/x", ".npm-global/lib/node_modules/x/cli.js", ".ssh/id", ".ssh/bin/x", ".config/app/run.sh", ".config/app/token.json",
		".local/bin/own", ".local/share/claude/versions/2", ".local/share/keyrings/k", "bin/own", "private/notes", "private/run.sh", "code/p/node_modules/.bin/x",
		"code/other/bin/x", "code/other/.git/HEAD", "sdk/go1/bin/go", "sdk/go1/pkg/x",
	} {
		path := filepath.Join(home, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"bin/h": ".ssh/id", "bin/c": ".config/app/run.sh", "bin/p": "private/run.sh", ".local/bin/claude": ".local/share/claude/versions/2",
	} {
		if err := os.Symlink(filepath.Join(home, to), filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		path string
		want []string // relative to home
		dirs int
	}{
		{".nvm/versions/node/v1/bin", []string{".nvm/versions/node/v1"}, 1},
		{".pyenv/shims", []string{".pyenv"}, 1},
		{".cargo/bin", []string{".cargo/bin", ".rustup"}, 1},
		{"go/bin", []string{"go/bin"}, 1},
		{".fly/bin", []string{".fly/bin"}, 1},
		{".npm-global/bin", []string{".npm-global"}, 1},
		{".local/bin", []string{".local/bin", ".local/share/claude/versions/2"}, 1},
		{"sdk/go1/bin", []string{"sdk/go1"}, 1},
		{"bin", []string{"bin", "private/run.sh"}, 1},
		{".ssh", nil, 0},
		{".ssh/bin", nil, 0},
		{".config/app", nil, 0},
		{"", nil, 0},
		{"code/p/node_modules/.bin", nil, 1},
		{"code/other/bin", []string{"code/other/bin"}, 1},
	} {
		t.Run(tt.path, func(t *testing.T) {
			places, err := taint.Read(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			found := Find(Options{
				Host: resolve.New(places, os.Getuid()), Home: home, Own: []string{project}, Project: project,
				Path: filepath.Join(home, tt.path) + ":relative:/no/such:/usr/bin:/proc:/sys:/var:/home:/etc",
			})
			roots, dirs := found.Roots, found.Dirs
			var got []string
			for _, r := range roots {
				rel, err := filepath.Rel(home, r.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rel)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if len(dirs) != tt.dirs+1 { // and /usr/bin
				t.Errorf("PATH became %v", dirs)
			}
		})
	}
}

func TestOnlyAHomeLiesAmongTheHostsOwnFolders(t *testing.T) {
	for _, tt := range []struct {
		root, home string
		unfit      bool
	}{
		{"/var/lib/build/bin", "/var/lib/build", false}, {"/var/lib/build/.ssh/bin", "/var/lib/build", true}, {"/var/lib/other/bin", "/var/lib/build", true},
		{"/var/lib/build/bin", "/home/build", true}, {"/var/lib/build/bin", "", true}, {"/etc/bin", "/home/build", true}, {"/home/build/bin", "/home/build", false},
	} {
		if got := unfit(tt.root, tt.home); got != tt.unfit {
			t.Errorf("%s with the home %s: %v", tt.root, tt.home, got)
		}
	}
}
