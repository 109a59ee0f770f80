package realtest

import (
	"os/exec"
	"strings"
	"testing"
)

// hostTools are what people run on a project while an agent works in it. Each line is
// one tool, in the project's top; it prints what must be the same with a session.
var hostTools = []struct{ name, needs, script string }{
	{"git status", "git", "git status --porcelain --untracked-files=all"},
	{"git add", "git", "git add -An"},
	{"git ls-files", "git", "git ls-files -o --exclude-standard"},
	{"find files with text", "find", "find . \\( -path ./.git -o -path ./.opencode \\) -prune -o -type f -size +0 -print | sort"},
	{"find sockets and links", "find", "find . ! -type f ! -type d"},
	{"tar", "tar", `tar cf "$OUT/x.tar" . && tar tvf "$OUT/x.tar" >/dev/null`},
	{"zip", "zip", `zip -qr "$OUT/x.zip" .`},
	{"cp", "cp", `cp -r . "$OUT/copy" && rm -rf "$OUT/copy"`},
	{"shutil.copytree", "python3", `python3 -c 'import shutil, sys; shutil.copytree(".", sys.argv[1] + "/tree")' "$OUT" && rm -rf "$OUT/tree"`},
	{"grep", "grep", "grep -rI --exclude-dir=.git hello ."},
	{"npm run", "npm", "npm run -s hello"},
	{"npm ls", "npm", "npm ls --json"},
	{"npm config", "npm", "npm config get registry"},
	{"go vet", "go", "GOFLAGS=-mod=mod GOCACHE=$OUT/go go vet ./..."},
	{"claude mcp list", "claude", "claude mcp list"},
	{"opencode models", "opencode", "opencode models >/dev/null"},
	{"yarn", "yarn", "yarn --silent run hello"},
}

// TestHostView runs the tools of a host in a project without a session, with one, and
// after one that was killed: they say the same, and fail in none.
func TestHostView(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	w.agent("claude")
	w.write(w.project, "package.json", `{"name": "p", "version": "1.0.0", "scripts": {"hello": "echo hello"}}`+"\n")
	w.write(w.project, "go.mod", "module p\n\ngo 1.24\n")
	// No program: for one, go vet would compile the runtime first, for ten seconds of a processor.
	w.write(w.project, "hello.go", "package p\n\nfunc Hello() string { return \"hello\" }\n")
	w.host("git", "add", ".")
	w.host("git", "commit", "-qm", "start")
	w.env["OUT"] = w.folder("out")
	ask := func(needs, script string) string {
		c := exec.CommandContext(t.Context(), "sh", "-euc", `command -v "$NEEDS" >/dev/null || { echo absent; exit 0; }; `+script)
		c.Dir, c.Env = w.project, append(w.environ(), "NEEDS="+needs, "TMPDIR="+w.env["OUT"])
		out, err := c.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	look := func() map[string]string {
		said := map[string]string{}
		for _, tool := range hostTools {
			said[tool.name] = ask(tool.needs, tool.script)
			// Whoever sweeps reads git's index again, and has git's lock for that moment, as two
			// programs of git would. One that was left behind would stay.
			if strings.Contains(said[tool.name], "index.lock") {
				waitFor(t, "git's lock", func() bool {
					said[tool.name] = ask(tool.needs, tool.script)
					return !strings.Contains(said[tool.name], "index.lock")
				})
			}
		}
		return said
	}
	before := look()
	for name, text := range before {
		if strings.Contains(text, "exit status") {
			t.Fatalf("%s fails without a session: %s", name, text)
		}
	}
	same := func(when string) {
		t.Helper()
		for name, text := range look() {
			if text != before[name] {
				t.Errorf("%s, %s says\n%s\nand before\n%s", when, name, text, before[name])
			}
		}
	}
	w.configure()
	w.ran = true
	const all = "ls -A; cat .git/info/exclude"
	bare := w.host("sh", "-c", all)
	if res := w.cloister(t.Context(), "run", "-d", "--name", "busy", "--", "sleep", "1000"); res.status != 0 {
		t.Fatal(res.stderr)
	}
	if held := w.host("ls", "-A"); !strings.Contains(held, ".envrc") || !strings.Contains(held, ".vscode") {
		t.Fatalf("nothing is held: %s", held)
	}
	same("with a session")
	if res := w.cloister(t.Context(), "list", "--json"); res.status == 0 {
		w.host("sh", "-c", `kill -9 $(printf '%s' "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')`, "sh", res.stdout)
	}
	// What it held goes one after the other, and its lines in git's list of exclusions at the end.
	waitFor(t, "the sweep", func() bool { return w.host("sh", "-c", all) == bare })
	same("after one that was killed")
}
