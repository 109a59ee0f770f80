package realtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeldNames is what programs find where Cloister holds a name that the
// project lacks: they must go on as if nothing were there, and git must see
// nothing, inside and outside, in one session and in a second beside it.
func TestHeldNames(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	w.write(w.project, "README.md", "# Here\n")
	// As a fresh clone has it: opencode keeps its .gitignore out of git.
	w.write(w.project, ".opencode/agent/reviewer.md", "Review.\n")
	w.host("git", "add", ".")
	w.host("git", "commit", "-qm", "start")
	// git of this repository asks for a file that does not exist.
	w.host("git", "config", "extensions.worktreeConfig", "true")

	look := `
for f in .npmrc .yarnrc.yml .mcp.json opencode.json .envrc; do
	node -e '
		const fs = require("fs"), f = process.argv[1]
		if (!fs.statSync(f).isFile() || fs.readFileSync(f, "utf8") !== "") throw f + " is not an empty file"
	' $f
	if echo x 2>/dev/null >$f; then echo "WRITTEN $f"; fi
	if rm -f $f 2>/dev/null; then echo "REMOVED $f"; fi
	if mv README.md $f 2>/dev/null; then echo "REPLACED $f"; fi
done
for d in .vscode .claude .codex .opencode .github/workflows .git/hooks; do
	ls $d >/dev/null
	if echo x 2>/dev/null >$d/planted; then echo "PLANTED $d"; fi
	if node -e 'require("fs").renameSync(process.argv[1], process.argv[1] + "-moved")' $d 2>/dev/null; then echo "MOVED $d"; fi
done
test -e .opencode/.gitignore || echo "NO .opencode/.gitignore"
echo "status: $(git status --porcelain)"
git add -A
echo "added: $(git diff --cached --name-only)"
`
	want := "status: \nadded: \n"
	first := exec.CommandContext(t.Context(), binary, "run", "--", "sh", "-c", "echo ready; read line")
	w.configure()
	w.ran = true
	first.Dir, first.Env = w.project, w.environ()
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	t.Run("outside", func(t *testing.T) {
		if got := w.host("git", "status", "--porcelain"); got != "" {
			t.Errorf("git status outside: %q", got)
		}
	})
	t.Run("second", func(t *testing.T) {
		if res := w.script(look); res.stdout != want {
			t.Errorf("a second session:\n%s\nwant:\n%s\n%s", res.stdout, want, res.stderr)
		}
	})
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	t.Run("alone", func(t *testing.T) {
		res := w.script(look)
		if res.stderr != "" {
			t.Errorf("a session that changed nothing says: %s", res.stderr)
		}
		if res.stdout != want {
			t.Errorf("a session alone:\n%s\nwant:\n%s\n%s", res.stdout, want, res.stderr)
		}
	})
	left, err := os.ReadDir(filepath.Join(w.project, ".opencode"))
	if err != nil || len(left) != 1 {
		t.Errorf("left in .opencode: %v (%v)", left, err)
	}
	if got := w.host("sh", "-c", "ls -A; ls .git"); strings.Contains(got, ".npmrc") || strings.Contains(got, "config.worktree") {
		t.Errorf("left in the project: %s", got)
	}
}
