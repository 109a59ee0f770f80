package realtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/audit"
	"cloister/internal/needs"
)

// binary is the cloister that all stories drive.
var binary string

func TestMain(m *testing.M) {
	if what := os.Getenv(clientKey); what != "" {
		os.Exit(client(what)) // a program inside
	}
	os.Exit(needs.Cloister(m, &binary))
}

// need is the path of a program, without which a story is skipped.
func need(t *testing.T, what, file string) string {
	t.Helper()
	return needs.Program(t, what, file)
}

// A world is one person's machine: folders of their own, a project in git, an
// internet on loopback.
type world struct {
	t       *testing.T
	dir     string
	home    string
	project string
	env     map[string]string
	net     *internet
	// settings is what config.yaml says besides proxy.
	settings string
	allow    []string // lines of proxy.allow
	// rules stand in proxy.allow for a name instead of the line that allows all
	// of it: the requests to it are read.
	rules map[string][]string
	// outside are names of rules that only programs outside connect to: a login's
	// servers, and what a test asks directly. No record tells of these connections.
	outside []string
	args    []string // flags of every run
	ran     bool     // there is a guardian
	// killed: a guardian of it was, and recorded no end of what was under way.
	killed bool
	// within bounds one run, and took is what an agent's story took.
	within, took time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("need linux: no driver builds a cloister here")
	}
	git := needs.Program(t, "git", "git")
	t.Parallel() // one world knows nothing of another, and agents wait a lot
	w := &world{t: t, dir: shortTemp(t), within: storyTime}
	w.home = w.folder("home")
	if captures != "" { // in a mount namespace of script/screens, a home with a name
		w.home = "/home/you"
		t.Cleanup(func() { _ = forceRemove("/home/you/src") })
	}
	w.project = w.repository("project")
	w.env = map[string]string{
		"HOME": w.home, "LANG": "C.UTF-8", "USER": "tester",
		"PATH":            strings.Join([]string{"/usr/local/bin", "/usr/bin", "/bin"}, ":"),
		"XDG_CONFIG_HOME": w.folder("config"), "XDG_STATE_HOME": w.folder("state"),
		"XDG_DATA_HOME": w.folder("data"), "XDG_RUNTIME_DIR": w.folder("run"),
	}
	w.net = newInternet(t)
	w.write(w.home, ".gitconfig", "[user]\n\tname = Ada Person\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
	w.write(w.home, ".ssh/id_ed25519", "the person's key\n")
	w.host(git, "init", "-q", ".")
	t.Cleanup(w.close)
	return w
}

// shortTemp is t.TempDir with a name that leaves room for the 107 bytes of a
// unix socket's path.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := forceRemove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// forceRemove also removes the module cache of the go command, which is
// read-only.
func forceRemove(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(dir))
}

func (w *world) folder(rel string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, rel)
	if err := os.MkdirAll(path, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// repository is a folder of the person's for a project, and nothing in it yet.
func (w *world) repository(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.home, "src", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// write makes a file below root with the folders above it.
func (w *world) write(root, rel, text string) {
	w.t.Helper()
	write(w.t, filepath.Join(root, rel), text, 0o644)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// host runs a program outside, in the project, and gives its output.
func (w *world) host(argv ...string) string {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), argv[0], argv[1:]...)
	c.Dir, c.Env = w.project, w.environ()
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func (w *world) environ() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(w.env)) {
		out = append(out, k+"="+w.env[k])
	}
	return out
}

// configure writes config.yaml: every name that the internet serves is reached
// there, and what is allowed besides.
func (w *world) configure() {
	w.t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [" + w.net.caFile + "]\n")
	hosts := w.net.hosts()
	if len(hosts) > 0 {
		b.WriteString("  allow:\n")
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			lines, read := w.rules[name]
			if !read {
				lines = []string{"domain: " + name}
			}
			for _, line := range lines {
				fmt.Fprintf(&b, "    - %s\n", line)
			}
		}
		for _, line := range w.allow {
			fmt.Fprintf(&b, "    - %s\n", line)
		}
		b.WriteString("  hosts:\n")
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			fmt.Fprintf(&b, "    %s: %q\n", name, hosts[name])
		}
	}
	b.WriteString(w.settings)
	w.write(w.env["XDG_CONFIG_HOME"], "cloister/config.yaml", b.String())
}

// result is what one run of the binary came to.
type result struct {
	stdout, stderr string
	status         int
	took           time.Duration
}

// cloister runs the binary with the words given.
func (w *world) cloister(ctx context.Context, words ...string) result {
	w.t.Helper()
	began := time.Now()
	c := exec.CommandContext(ctx, binary, words...)
	c.Dir, c.Env = w.project, w.environ()
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("cloister %s: %v", strings.Join(words, " "), err)
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode(), time.Since(began)}
}

// storyTime bounds one run where nothing else is said: a program that waits for a network that never
// answers is a failure, not a slow test.
const storyTime = 5 * time.Minute

// run runs a command in a cloister of the project.
func (w *world) run(argv ...string) result {
	w.t.Helper()
	w.configure()
	w.ran = true
	ctx, cancel := context.WithTimeout(w.t.Context(), w.within)
	defer cancel()
	words := append([]string{"run"}, w.args...)
	return w.cloister(ctx, append(append(words, "--"), argv...)...)
}

// must runs a command that has to end with 0.
func (w *world) must(argv ...string) result {
	w.t.Helper()
	res := w.run(argv...)
	if res.status != 0 {
		w.t.Fatalf("%s: status %d after %v\nstdout: %s\nstderr: %s\naudit:\n%s", strings.Join(argv, " "), res.status, res.took, res.stdout, res.stderr, w.journal())
	}
	return res
}

// script runs a shell script inside.
func (w *world) script(text string) result {
	w.t.Helper()
	return w.must("sh", "-euc", text)
}

// events reads the record of what happened.
func (w *world) events() []audit.Event {
	w.t.Helper()
	var out []audit.Event
	for e, err := range audit.Read(filepath.Join(w.env["XDG_STATE_HOME"], "cloister/audit"), audit.Filter{}) {
		if err != nil {
			w.t.Fatalf("read audit: %v", err)
		}
		out = append(out, e)
	}
	return out
}

// journal shows the record for a failure.
func (w *world) journal() string {
	var b strings.Builder
	for _, e := range w.events() {
		fmt.Fprintf(&b, "%s %s %s %s %s:%d %s %s", e.Time.Format("05.000"), e.Kind, e.Action, e.Verdict, e.Host, e.Port, e.Via, e.Reason)
		if e.BytesUp != nil && e.BytesDown != nil {
			fmt.Fprintf(&b, " up=%d down=%d", *e.BytesUp, *e.BytesDown)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// stopAll ends what a story that failed halfway left running.
func (w *world) stopAll() {
	w.cloister(context.WithoutCancel(w.t.Context()), "stop", "--all", "-t", "1s")
}

// close looks for what the runs left, ends the guardian and checks the chain.
func (w *world) close() {
	if !w.ran {
		return // skipped
	}
	if !w.t.Failed() && !w.killed {
		w.checkAudit()
	}
	ctx := context.WithoutCancel(w.t.Context())
	if res := w.cloister(ctx, "guardian", "stop"); res.status != 0 {
		w.t.Errorf("guardian stop: status %d: %s", res.status, res.stderr)
	}
	if res := w.cloister(ctx, "audit", "verify"); res.status != 0 {
		w.t.Errorf("audit verify: status %d: %s%s", res.status, res.stdout, res.stderr)
	}
	w.checkLeft()
}

// processes are those that have this world's folders in their environment, or
// that run in its project in a cloister.
func (w *world) processes() []string {
	w.t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		w.t.Fatal(err)
	}
	mark, inside := []byte("XDG_RUNTIME_DIR="+w.env["XDG_RUNTIME_DIR"]), []byte("CLOISTER_NAME=")
	var out []string
	for _, p := range found {
		dir := filepath.Dir(p)
		env, err := os.ReadFile(p)
		if err != nil {
			continue // ended meanwhile, or another user's
		}
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if bytes.Contains(env, mark) || bytes.Contains(env, inside) && strings.HasPrefix(cwd, w.dir) {
			cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			out = append(out, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// reload tells the guardian that the configuration has changed.
func (w *world) reload() {
	w.t.Helper()
	w.configure()
	if res := w.cloister(w.t.Context(), "guardian", "reload"); res.status != 0 {
		w.t.Fatalf("guardian reload: status %d: %s", res.status, res.stderr)
	}
}

// waitFor asks until it is so, for half a minute.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(storyTime); time.Now().Before(deadline); <-tick.C {
		if is() {
			return
		}
	}
	t.Errorf("%s: waited for in vain", what)
}

// checkLeft fails where a process with this world's folders, a mount or a stub
// is still there.
func (w *world) checkLeft() {
	w.t.Helper()
	waitFor(w.t, "the end of the last process", func() bool { return len(w.processes()) == 0 })
	for _, p := range w.processes() {
		w.t.Errorf("left behind: process %s", p)
	}
	if mounts := read(w.t, "/proc/self/mounts"); strings.Contains(mounts, w.dir) {
		w.t.Errorf("left behind: a mount below %s", w.dir)
	}
	stubs, err := filepath.Glob(filepath.Join(w.env["XDG_RUNTIME_DIR"], "cloister/*/*.stubs"))
	if err != nil || len(stubs) > 0 {
		w.t.Errorf("left behind: journals of stubs %v (%v)", stubs, err)
	}
	for _, name := range []string{".claude", ".mcp.json", ".npmrc", ".envrc", ".vscode", "opencode.json", ".codex", ".cargo", ".husky"} {
		if fi, err := os.Lstat(filepath.Join(w.project, name)); err == nil {
			w.t.Errorf("left behind: %s (%v) in the project", name, fi.Mode())
		}
	}
}
