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
	out = h.Run(t, Options{Env: append([]string{"G=" + h.Project + "/.git"}, identity...)}, "sh", "-c", gitAttacks)
	if out.Err != nil || out.Stdout != "" {
		t.Errorf("attacks: %+v", out)
	}
	if after := read(t, filepath.Join(h.Project, ".git/config")); after != before {
		t.Errorf("config became %q", after)
	}
	if got := h.git(t, h.Project, "log", "--oneline", "side"); !strings.Contains(got, "inside") {
		t.Errorf("the host sees %q", got)
	}
	if got := h.git(t, h.Project, "status", "--porcelain"); got != "" {
		t.Errorf("the host's status shows %q", got)
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
	if out.Err != nil || out.Stdout != "" {
		t.Errorf("attacks: %+v", out)
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
	if out.Err != nil || strings.Contains(out.Stdout, "BROKE") || out.Status.ExitCode() != 0 {
		t.Errorf("attacks: %+v", out)
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
	out := h.Run(t, Options{During: func(sandbox.Box) {
		await(t, func() bool { _, err := os.Stat(filepath.Join(h.Project, "ready")); return err == nil })
		h.git(t, h.Project, "clean", "-fdq", "-e", "ready")
		h.Write(t, "go", "")
	}}, "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; mkdir .vscode; echo mine > "+
		".vscode/tasks.json; sleep 0.5; echo more >> .vscode/tasks.json; echo end")
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "end\n") {
		t.Errorf("%+v", out)
	}
}

func gitInit(t *testing.T, h *Harness) {
	out := h.sh(t, "git init; mkdir -p .git; echo x > .git/config; mv .git g; true")
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
	out := h.Run(t, Options{Env: identity, During: func(sandbox.Box) {
		await(t, func() bool { _, err := os.Stat(filepath.Join(h.Project, "ready")); return err == nil })
		if got := read(t, settings); got != before {
			t.Errorf("the host's settings: %q, were %q", got, before)
		}
		h.git(t, h.Project, "config", "--file", settings, "user.name", "host")
		h.Write(t, "go", "")
	}}, "sh", "-c",
		`git -C lib commit -q --allow-empty -m more && git submodule update &&
	git submodule status && git -C lib status --short
touch ready; while [ ! -e go ]; do sleep 0.05; done
for n in $(seq 400); do grep -q worktree .git/modules/lib/config || break; sleep 0.05; done
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
