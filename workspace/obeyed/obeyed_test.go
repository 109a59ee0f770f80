package obeyed_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/workspace/gitdir"
	"cloister/workspace/hostgit"
	"cloister/workspace/obeyed"
)

// TestIn: what a repository's own configuration leads git to is obeyed, whatever it is called.
func TestIn(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tools/mon.sh", "#!/bin/sh\n")
	write("shared", "[user]\n\tname = x\n")
	plain, err := obeyed.In(root, obeyed.Person{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git/HEAD", ".git/objects/x", ".git/refs/x"} {
		write(name, "ref: refs/heads/main\n")
	}
	write(".git/config", "[core]\n\thooksPath = tracked-hooks\n"+
		"[include]\n\tpath = ../shared\n[diff \"x\"]\n\ttextconv = tools/mon.sh --x\n")
	led, err := obeyed.In(root, obeyed.Person{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"tools/mon.sh": true, "shared": true, "tracked-hooks/pre-commit": true,
		"tracked-hooks": true, "tools/other.sh": false, "main.go": false} {
		if got := led(name); got != want {
			t.Errorf("%s is obeyed: %v", name, got)
		}
		if plain(name) { // the control: without that configuration no one is led there
			t.Errorf("%s is obeyed without a repository", name)
		}
	}
	if !led(".envrc") || !plain(".envrc") {
		t.Error("what runs by its name is not obeyed")
	}
}

// home makes a person's home, and in it a project with these files.
func home(t *testing.T, files map[string]string) (home, project string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project = filepath.Join(home, "src", "project")
	for name, text := range files {
		at := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return home, project
}

// TestPerson: what the person's own configuration of git leads to in a project is obeyed in each repository there: hooks
// whose folder is named from the project's top, files that it includes, and what git has by its variables.
func TestPerson(t *testing.T) {
	home, root := home(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", ".git/config": "[core]\n\tbare = false\n",
		"shared.gitconfig": "[core]\n\tfsmonitor = tools/watch.sh\n", "tools/watch.sh": "", "tools/sign.sh": "",
		"../../.gitconfig": "[core]\n\thooksPath = tracked-hooks\n[include]\n\tpath = ~/src/project/shared.gitconfig\n",
	})
	by := func(hostgit.Folders) hostgit.Configuration { // as git has GIT_CONFIG_COUNT
		return hostgit.Configuration{Entries: []gitdir.Entry{{Section: "gpg", Key: "program", Value: "tools/sign.sh"}}}
	}
	own, oerr := obeyed.In(root, obeyed.Person{})
	person, perr := obeyed.In(root, obeyed.Person{Home: home, Git: by})
	if oerr != nil || perr != nil {
		t.Fatal(oerr, perr)
	}
	for name, want := range map[string]bool{"tracked-hooks/pre-commit": true, "shared.gitconfig": true, "tools/watch.sh": true,
		"tools/sign.sh": true, "tools/other.sh": false, "main.go": false} {
		if person(name) != want {
			t.Errorf("%s is obeyed: %v", name, !want)
		}
		if own(name) { // the control: the repository's own configuration leads nowhere
			t.Errorf("%s is obeyed without the person's configuration", name)
		}
	}
}

// TestNested: git of the host takes what is relative in the person's configuration from the top of each repository, and
// obeys that one's own configuration too.
func TestNested(t *testing.T) {
	home, root := home(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", ".git/config": "[core]\n\tbare = false\n",
		"lib/.git/HEAD": "ref: refs/heads/main\n", "lib/.git/objects/x": "", "lib/.git/refs/x": "",
		"lib/.git/config": "[core]\n\tfsmonitor = tools/watch.sh\n", "lib/tools/watch.sh": "", "plain/x": "",
		"../../.gitconfig": "[core]\n\thooksPath = tracked-hooks\n",
	})
	led, err := obeyed.In(root, obeyed.Person{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"tracked-hooks/pre-commit": true, "lib/tracked-hooks/pre-commit": true,
		"lib/tools/watch.sh": true, "lib/main.go": false, "plain/tracked-hooks/pre-commit": false} {
		if led(name) != want {
			t.Errorf("%s is obeyed: %v", name, !want)
		}
	}
}
