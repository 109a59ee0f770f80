package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"

	"github.com/google/go-cmp/cmp"
)

func TestUnregistered(t *testing.T) {
	root := t.TempDir()
	g := &Git{Dir: filepath.Join(root, ".git"), Common: filepath.Join(root, ".git")}
	for name, text := range map[string]string{
		".git/HEAD":   "ref: refs/heads/main\n",
		".git/config": "[remote \"up\"]\n\turl = https://git.example/team/app.git\n[branch \"main\"]\n\tremote = up\n[submodule \"known\"]\n\turl = x\n",
		".gitmodules": "[submodule \"known\"]\n\turl = ../known.git\n[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n" +
			"[submodule \"far\"]\n\turl = https://other.example/far\n\tupdate = rebase\n" +
			"[submodule \"run\"]\n\turl = ./run\n\tupdate = !id\n[submodule \"none\"]\n\tpath = x\n[submodule \"two\nlines\"]\n\turl = y\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []Submodule{
		{Name: "lib", URL: "https://git.example/team/lib.git"},
		{Name: "far", URL: "https://other.example/far", Update: "rebase"},
		{Name: "run", URL: "https://git.example/team/app.git/run"},
	}
	if diff := cmp.Diff(want, Unregistered(sandbox.HostPath(root), g)); diff != "" {
		t.Error(diff)
	}
}

func TestAgainst(t *testing.T) {
	for _, tt := range []struct{ base, url, want string }{
		{"git@host:team/app", "../lib", "git@host:team/lib"},
		{"git@host:app", "../lib", "git@host:lib"},
		{"https://h/a/b/", "../../c", "https://h/c"},
		{"/srv/app", "./lib/", "/srv/app/lib"},
		{"/srv/app", "/elsewhere", "/elsewhere"},
	} {
		if got := against(tt.base, tt.url); got != tt.want {
			t.Errorf("against(%q, %q) = %q, want %q", tt.base, tt.url, got, tt.want)
		}
	}
}
