package realtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/audit"
)

// agent finds an agent that script/agents installed, and puts its folder first
// on PATH. It gives the folder that they are installed in.
func (w *world) agent(name string) string {
	w.t.Helper()
	prefix := os.Getenv("CLOISTER_AGENTS_PREFIX")
	if prefix == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			w.t.Fatal(err)
		}
		prefix = filepath.Join(cache, "cloister-agents")
	}
	need(w.t, name, filepath.Join(prefix, "bin", name))
	w.env["PATH"] = filepath.Join(prefix, "bin") + ":" + w.env["PATH"]
	return prefix
}

// wrongAdd is a repository with a fault and the test that shows it.
func (w *world) wrongAdd() {
	w.t.Helper()
	w.write(w.project, "add.js", "exports.add = (a, b) => a - b\n")
	w.write(w.project, "add.test.js", "const {add} = require('./add.js')\n"+
		"if (add(2, 3) !== 5) { console.log('WRONG'); process.exit(1) }\nconsole.log('RIGHT')\n")
	w.host("git", "add", ".")
	w.host("git", "commit", "-qm", "start")
}

// checkFixed is what the agents do about it: a commit of the person's, on their
// disk, and nothing beside it.
func (w *world) checkFixed() {
	w.t.Helper()
	if got, want := read(w.t, w.project+"/add.js"), "exports.add = (a, b) => a + b\n"; got != want {
		w.t.Errorf("add.js is %q, want %q", got, want)
	}
	if got, want := strings.TrimSpace(read(w.t, w.project+"/docs/notes.md")), "# Notes\n\nadd adds."; got != want {
		w.t.Errorf("docs/notes.md is %q, want %q", got, want)
	}
	if got, want := w.host("git", "log", "--format=%s|%an <%ae>"), "add: add|Ada Person <ada@example.org>\nstart|Ada Person <ada@example.org>\n"; got != want {
		w.t.Errorf("git log: %q, want %q", got, want)
	}
	if got := w.host("git", "status", "--short"); got != "" {
		w.t.Errorf("git status: %q, want nothing", got)
	}
	if got, want := w.host("git", "show", "--format=", "--name-only", "HEAD"), "add.js\ndocs/notes.md\n"; got != want {
		w.t.Errorf("the commit holds %q, want %q", got, want)
	}
	w.host("git", "fsck", "--strict")
	if got := w.host("node", "add.test.js"); got != "RIGHT\n" {
		w.t.Errorf("the test says %q", got)
	}
}

// whoAmI tells what the payload may do.
const whoAmI = "id -u; grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status"

func checkPayload(t *testing.T, text string) {
	t.Helper()
	if regexp.MustCompile(`(?m)^0$`).MatchString(text) {
		t.Errorf("the payload is root: %q", text)
	}
	for _, line := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !regexp.MustCompile(line + `:\s+0{16}\b`).MatchString(text) {
			t.Errorf("the payload's %s is not empty: %q", line, text)
		}
	}
	for _, line := range []string{`NoNewPrivs:\s+1\b`, `Seccomp:\s+2\b`} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("the payload does not show %s: %q", line, text)
		}
	}
}

// lookAround tries what an agent is kept from.
const lookAround = "cat ~/.ssh/id_ed25519; echo evil > .git/hooks/pre-commit; echo '[core]' >> .git/config; " +
	"mkdir .claude/x; curl -sS -m 5 https://evil.example.net/; echo looked"

func (w *world) checkLookedAround(text string, res result) {
	w.t.Helper()
	for _, want := range []string{
		"cat: ", "No such file or directory",
		"Could not resolve host: evil.example.net", "looked",
	} {
		if !strings.Contains(text, want) {
			w.t.Errorf("looking around told %q, without %q", text, want)
		}
	}
	for _, file := range []string{".git/hooks/pre-commit", ".git/config"} {
		// An agent takes the shell that it finds, and zsh says it the other way round.
		if !strings.Contains(text, file+": Read-only file system") && !strings.Contains(text, "read-only file system: "+file) {
			w.t.Errorf("looking around told %q, without that %s is read-only", text, file)
		}
	}
	if strings.Contains(text, "the person's key") {
		w.t.Error("the agent read the person's key")
	}
	if hooks := w.host("sh", "-c", "ls .git/hooks | grep -v sample || true"); hooks != "" {
		w.t.Errorf("hooks appeared: %q", hooks)
	}
	for _, want := range []string{"cloister: refused evil.example.net", "--allow evil.example.net"} {
		if !strings.Contains(res.stderr, want) {
			w.t.Errorf("stderr %q does not tell %q", res.stderr, want)
		}
	}
	if !slices.ContainsFunc(w.events(), func(e audit.Event) bool {
		return e.Kind == audit.NetDNS && e.Host == "evil.example.net" && e.Verdict == "deny"
	}) {
		w.t.Errorf("audit: no refusal of evil.example.net:\n%s", w.journal())
	}
}

// refused are the hosts that the world's sessions asked for in vain, sorted.
func (w *world) refused() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.events() {
		if e.Verdict == "deny" && e.Host != "" {
			out = append(out, e.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
