package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
)

func (h *Harness) git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...) // the host's git plays the host
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + h.Home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=t",
		"GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

var identity = []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
	"GIT_COMMITTER_EMAIL=a@example.com"}

// gitWork is what every repository must be able to do inside.
const gitWork = "set -e; echo x > f; git add f; git commit -qm inside; git branch side; git checkout -q side; git " +
	"log --oneline | head -1; git status --porcelain"

// gitAttacks must all fail; each that succeeds prints its name.
const gitAttacks = `
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "BROKE $name"; fi; }
put() { mkdir -p "$(dirname "$1")" && echo evil >> "$1"; }
try hook put "$G/hooks/pre-commit"
try config git config core.fsmonitor evil
try config-file put "$G/config"
try worktree-config put "$G/config.worktree"
try attributes put "$G/info/attributes"
try move-hooks mv "$G/hooks" "$G/h2"
try move-config mv "$G/config" "$G/c2"
try replace-config cp /dev/null "$G/config"
try move-git mv "$G" "$G.old"
true
`

func repository(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	h.git(t, h.Project, "commit", "-q", "--allow-empty", "-m", "first")
	before := read(t, filepath.Join(h.Project, ".git/config"))
	out := h.Run(t, Options{Env: identity}, "sh", "-c", gitWork)
	if out.Err != nil || out.Status.ExitCode() != 0 || !strings.Contains(out.Stdout, "inside") ||
		strings.Contains(out.Stdout, "??") {
		t.Errorf("git inside: %+v", out)
	}
	sees := func() {
		if got := h.git(t, h.Project, "log", "--oneline", "side"); !strings.Contains(got, "inside") {
			t.Errorf("the host sees %q", got)
		}
		if got := h.git(t, h.Project, "status", "--porcelain"); got != "" {
			t.Errorf("the host's status shows %q", got)
		}
	}
	sees()
	out = h.Run(t, Options{Env: append([]string{"G=" + h.Project + "/.git"}, identity...)}, "sh", "-c", gitAttacks)
	h.held(t, out)
	if after := read(t, filepath.Join(h.Project, ".git/config")); after != before {
		t.Errorf("config became %q", after)
	}
	if _, err := os.Lstat(filepath.Join(h.Project, ".git/hooks/pre-commit")); err == nil {
		t.Error("a hook was made")
	}
	if !h.copies { // of a copy the whole repository was moved, and so it is by an apply
		sees()
	}
}

// held wants each attack of a script to have failed, and of a copy, which may be broken, some to have
// come off: what came of them on the host is for the case to look at.
func (h *Harness) held(t testing.TB, out Out) {
	t.Helper()
	if h.copies {
		if out.Err != nil || !strings.Contains(out.Stdout, "BROKE") {
			t.Errorf("attacks on a copy: %+v", out)
		}
		return
	}
	if out.Err != nil || out.Stdout != "" {
		t.Errorf("attacks: %+v", out)
	}
}

func worktree(t *testing.T, h *Harness) {
	main := filepath.Join(h.Home, "main repo")
	if err := os.MkdirAll(main, 0o755); err != nil {
		t.Fatal(err)
	}
	h.git(t, main, "init", "-q")
	h.git(t, main, "commit", "-q", "--allow-empty", "-m", "first")
	h.git(t, main, "worktree", "add", "-q", filepath.Join(h.Home, "other"))
	if err := os.Remove(h.Project); err != nil {
		t.Fatal(err)
	}
	h.git(t, main, "worktree", "add", "-q", h.Project)
	h.Write(t, filepath.Join(main, "private.txt"), "canary")
	out := h.Run(t, Options{Env: identity}, "sh", "-c", gitWork)
	if out.Err != nil || out.Status.ExitCode() != 0 || !strings.Contains(out.Stdout, "inside") {
		t.Errorf("git inside: %+v", out)
	}
	out = h.Run(t, Options{Env: append([]string{"G=" + main + "/.git"}, identity...)}, "sh", "-c", gitAttacks+`
try pointer put .git
try move-pointer mv .git .git2
try gitdir put "$G/worktrees/pröject/gitdir"
try commondir put "$G/worktrees/pröject/commondir"
try own-config put "$G/worktrees/pröject/config.worktree"
try other-head put "$G/worktrees/other/HEAD"
try main-head put "$G/HEAD"
try main-files cat "$G/../private.txt"
true
`)
	h.held(t, out)
	if strings.Contains(out.Stdout, "main-files") {
		t.Errorf("files beside the repository are seen: %+v", out)
	}
	if h.copies { // its repository lies elsewhere, and nothing of that comes back
		if got := h.git(t, main, "for-each-ref", "--format=%(refname)"); strings.Contains(got, "side") ||
			strings.Contains(read(t, filepath.Join(main, ".git/config")), "evil") {
			t.Errorf("the repository has %q", got)
		}
		return
	}
	if got := h.git(t, main, "log", "--oneline", "side"); !strings.Contains(got, "inside") {
		t.Errorf("the host sees %q", got)
	}
}

// gitLed tries the ways in which git is led to other configuration and hooks.
func gitLed(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	h.git(t, h.Project, "commit", "-q", "--allow-empty", "-m", "first")
	h.Write(t, ".gitshared", "[user]\n\tname = x\n")
	h.Write(t, "tools/mon.sh", "#!/bin/sh\n")
	f, err := os.OpenFile(filepath.Join(h.Project, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("[core]\n\thooksPath = .githooks # shared\n[include]\n\tpath = ../.gitshared\n[diff " +
		"\"x\"]\n\ttextconv = \"tools/mon.sh --x\"\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out := h.Run(t, Options{Env: append([]string{"G=" + h.Project + "/.git"}, identity...)}, "sh", "-c", gitAttacks+`
try commondir put "$G/commondir"
try move-commondir mv "$G/commondir" "$G/c"
try hooks-path put .githooks/pre-commit
try included put .gitshared
try program put tools/mon.sh
try move-program mv tools t
git status --porcelain
true
`)
	if out.Err != nil || strings.Contains(out.Stdout, "BROKE") && !h.copies || out.Status.ExitCode() != 0 && !h.copies {
		t.Errorf("attacks: %+v", out)
	}
	for name, want := range map[string]string{".gitshared": "[user]\n\tname = x\n", "tools/mon.sh": "#!/bin/sh\n"} {
		if got := read(t, filepath.Join(h.Project, name)); got != want {
			t.Errorf("%s became %q", name, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(h.Project, ".githooks/pre-commit")); err == nil {
		t.Error("a hook was made")
	}
	if _, err := os.Stat(filepath.Join(h.Project, ".git/commondir")); err == nil {
		t.Error("a stub is left")
	}
}

// gitClean: what the host removes is covered again or, where someone's own
// file stands now, held as it is; the session goes on.
func gitClean(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	h.git(t, h.Project, "commit", "-q", "--allow-empty", "-m", "first")
	out := h.Run(t, Options{During: func(b sandbox.Box) {
		h.awaitFile(t, b, "ready")
		h.git(t, h.Project, "clean", "-fdq", "-e", "ready")
		h.tell(t, b, "go")
	}}, "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; mkdir .vscode; echo mine > "+
		".vscode/tasks.json; sleep 0.5; echo more >> .vscode/tasks.json; echo end")
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "end\n") {
		t.Errorf("%+v", out)
	}
}

func gitInit(t *testing.T, h *Harness) {
	out := h.sh(t, "git init; mkdir -p .git; echo x > .git/config; mv .git g; true")
	if h.copies { // what was moved is a folder like any other, without what git would obey in it
		if err := os.RemoveAll(filepath.Join(h.Project, "g/objects")); err != nil {
			t.Error(err)
		}
		for _, name := range []string{".git", "g/config", "g/HEAD", "g/hooks/pre-commit"} {
			if _, err := os.Lstat(filepath.Join(h.Project, name)); err == nil {
				t.Errorf("%s is there: %+v", name, out)
			}
		}
		return
	}
	if entries, err := os.ReadDir(h.Project); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v (%+v)", entries, err, out)
	}
}

// submodule: git brings up to date what is checked out, which it cannot do where
// it has to write the submodule's settings; also after the host replaced them.
func submodule(t *testing.T, h *Harness) {
	origin := filepath.Join(h.Home, "lib")
	if err := os.MkdirAll(origin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{origin, h.Project} {
		h.git(t, dir, "init", "-q")
		h.git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	}
	h.git(t, h.Project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "lib")
	h.git(t, h.Project, "commit", "-q", "-m", "lib")
	settings := filepath.Join(h.Project, ".git/modules/lib/config")
	before := read(t, settings)
	if !strings.Contains(before, "worktree = ") {
		t.Fatalf("git says nothing of the place any more: %q", before)
	}
	out := h.Run(t, Options{Env: identity, During: func(b sandbox.Box) {
		h.awaitFile(t, b, "ready")
		if got := read(t, settings); got != before {
			t.Errorf("the host's settings: %q, were %q", got, before)
		}
		h.git(t, h.Project, "config", "--file", settings, "user.name", "host")
		h.tell(t, b, "go")
	}}, "sh", "-c",
		"tries="+map[bool]string{true: "1", false: "400"}[h.copies]+`
git -C lib commit -q --allow-empty -m more && git submodule update &&
	git submodule status && git -C lib status --short
touch ready; while [ ! -e go ]; do sleep 0.05; done
for n in $(seq $tries); do grep -q worktree .git/modules/lib/config || break; sleep 0.05; done
git submodule update && echo again; git -C lib config core.fsmonitor evil; echo evil >>.git/modules/lib/config
rm -f .git/modules/lib/config; true`)
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "again\n") || !strings.Contains(out.Stdout, " lib (") {
		t.Errorf("%+v", out)
	}
	if got := read(t, settings); strings.Contains(got, "evil") || !strings.Contains(got, "host") ||
		!strings.Contains(got, "worktree = ") {
		t.Errorf("the host's settings: %q", got)
	}
}
