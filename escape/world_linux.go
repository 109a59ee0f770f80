package escape

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/audit"
)

// World is one person's machine for one run of the corpus: a home with secrets,
// a project in git, canaries, servers that count, an instance of cloister.
type World struct {
	Inside
	Cloister string            // the binary
	Off      string            // the same, built to leave out layers; empty: not given
	Env      map[string]string // of every command on the host
	Extra    map[string]string // more of it for runs and the guardian: a layer to leave out
	Kind     Enclosure         // what cloisters are built of, where not the native driver's own view
	Dir      string            // where commands on the host start; the project
	Last     Result            // of the case's own cloister

	ctx      context.Context
	canaries map[string]string
	sinks    *sinks
	guardian *exec.Cmd
	victim   *exec.Cmd
	unbooted int // starts that came to no machine
}

// Result is what one command came to.
type Result struct {
	Stdout, Stderr string
	Status         int
	Took           time.Duration
}

// NewWorld makes a world below dir. It must not lie in /tmp, which a cloister
// may write for itself.
func NewWorld(ctx context.Context, dir, cloister, self string, kind Enclosure, extra map[string]string) (w *World, err error) {
	base, err := os.MkdirTemp(dir, "esc")
	if err != nil {
		return nil, fmt.Errorf("make world: %w", err)
	}
	w = &World{ctx: ctx, Cloister: cloister, Kind: kind, Extra: map[string]string{}, Inside: Inside{
		Base: base, Home: base + "/home", Project: base + "/home/src/project", Outside: base + "/outside", Self: self, ByRoot: os.Geteuid() == 0, Level: kind.Column(),
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	maps.Copy(w.Extra, extra)
	w.Dir = w.Project
	w.Env = map[string]string{
		"HOME": w.Home, "USER": "tester", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin",
		"XDG_CONFIG_HOME": base + "/config", "XDG_STATE_HOME": base + "/state",
		"XDG_DATA_HOME": base + "/data", "XDG_RUNTIME_DIR": base + "/run",
		"AWS_SECRET_ACCESS_KEY": secret, "SSH_AUTH_SOCK": base + "/agent.sock", "GITHUB_TOKEN": secret,
		"LD_LIBRARY_PATH": "/nowhere/" + secret, "BASH_ENV": "/nowhere/" + secret, "NODE_OPTIONS": "--no-warnings",
		"PYTHONSTARTUP": "/nowhere/" + secret, "GIT_AUTHOR_NAME": secret, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere/" + secret,
		"DISPLAY": ":99", "WAYLAND_DISPLAY": secret,
	}
	if kind.Engine != "" {
		w.Env["DOCKER_HOST"] = kind.Engine
	}
	w.Socket, w.Audit = base+"/run/cloister/guardian.sock", base+"/state/cloister/audit"
	if err := w.furnish(); err != nil {
		return w, err
	}
	if w.sinks, err = listen(w.Base); err != nil {
		return w, err
	}
	w.Port, w.Secure, w.Raw, w.HostIP, w.Abstract, w.Path = w.sinks.port, w.sinks.tlsPort, w.sinks.rawPort, w.sinks.hostIP, w.sinks.abstract, w.sinks.path
	if err := write(w.Base+"/authority.pem", string(w.sinks.authority)); err != nil {
		return w, err
	}
	if w.victim, err = victim(ctx, self); err != nil {
		return w, err
	}
	w.PID = w.victim.Process.Pid
	return w, nil
}

// secret is what no output from inside may hold.
const secret = "CANARY-SECRET-7f3a"

// furnish makes the person's files.
func (w *World) furnish() error {
	if err := os.Chmod(w.Base, 0o755); err != nil {
		return fmt.Errorf("make world: %w", err)
	}
	if err := w.files(); err != nil {
		return err
	}
	for _, dir := range []string{"config", "state", "data", "run"} {
		if err := os.MkdirAll(filepath.Join(w.Base, dir), 0o700); err != nil {
			return fmt.Errorf("make world: %w", err)
		}
	}
	if err := w.Kind.Furnish(w.Base + "/data"); err != nil {
		return err
	}
	return w.repository()
}

// repository makes the project one.
func (w *World) repository() error {
	for _, args := range [][]string{{"init", "-q", "-b", "main", "."}, {"add", "."}, {"commit", "-qm", "start"}} {
		if res, err := w.Exec("git", args...); err != nil || res.Status != 0 {
			return fmt.Errorf("make project: git %s: %w: %s", args[0], err, res.Stderr)
		}
	}
	return nil
}

// hooks puts the repository's own files back.
func (w *World) hooks() error {
	for _, name := range []string{".git", ".git2"} {
		if err := os.RemoveAll(filepath.Join(w.Project, name)); err != nil {
			return fmt.Errorf("make project: %w", err)
		}
	}
	return w.repository()
}

// files are the person's, and the canaries.
func (w *World) files() error {
	files := map[string]string{
		".bashrc": "# mine\n", ".profile": "# mine\n", ".zshrc": "# mine\n", ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n",
		".config/fish/config.fish": "# mine\n", ".ssh/authorized_keys": "ssh-ed25519 mine\n", ".config/systemd/user/mine.service": "[Unit]\n", ".config/autostart/mine.desktop": "[Desktop Entry]\n",
	}
	for _, name := range SecretFiles() {
		files[name] = secret + " " + name + "\n"
	}
	files[".git-credentials"] = "https://ada:" + secret + "@git.example\n"
	for name, text := range files {
		if err := write(filepath.Join(w.Home, name), text); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		w.Outside + "/canary": "canary\n", w.Home + "/src/canary": "canary\n", w.Home + "/src/other/.git/config": "[core]\n",
		w.Project + "/main.go": "package main\n", w.Project + "/src/deep/file": "deep\n",
		w.Project + "/.vscode/settings.json": "{}\n", w.Project + "/.claude/settings.json": "{}\n", w.Project + "/sub/.envrc": "# mine\n",
	} {
		if err := write(path, text); err != nil {
			return err
		}
	}
	return nil
}

// SecretFiles are the files below a home that hold what no agent may read.
func SecretFiles() []string {
	return []string{
		".ssh/id_ed25519", ".ssh/id_rsa", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".docker/config.json",
		".kube/config", ".gnupg/private-keys-v1.d/key", ".mozilla/firefox/x.default/logins.json", ".config/google-chrome/Default/Login Data",
		".claude/.credentials.json", ".codex/auth.json", ".config/gcloud/credentials.db", ".npmrc", ".pypirc", ".git-credentials", ".bash_history",
	}
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make world: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("make world: %w", err)
	}
	return nil
}

// Write makes a file of the world with the folders above it.
func (w *World) Write(path, text string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.Project, path)
	}
	return write(path, text)
}

// Hosts are the names that rules allow, and where each is served.
func (w *World) Hosts() map[string]string {
	to := "127.0.0.1:" + strconv.Itoa(w.sinks.upstream)
	hosts := map[string]string{"allowed.test": to, "sub.wild.test": to, "a.b.wild.test": to, "other.test": to}
	for _, name := range Inspected() {
		hosts[name] = "127.0.0.1:" + strconv.Itoa(w.Secure)
	}
	hosts[RawName] = "127.0.0.1:" + strconv.Itoa(w.Raw)
	return hosts
}

// Configure writes config.yaml and starts the guardian.
func (w *World) Configure() error {
	var b strings.Builder
	b.WriteString(w.Kind.Head() + "proxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  allow:\n    - domain: allowed.test\n    - domain: other.test\n    - domain: \"*.wild.test\"\n    - domain: ask.test\n")
	names := Inspected()
	fmt.Fprintf(&b, "    - domain: %s\n      ports: [443]\n      methods: [GET, POST]\n      paths: [\"/ok/**\"]\n", names[0])
	fmt.Fprintf(&b, "    - domain: %s\n      ports: [443]\n      methods: [GET, POST]\n      paths: [\"/ok/**\"]\n", RawName)
	fmt.Fprintf(&b, "    - domain: %s\n      ports: [443]\n      headers: {X-Tenant: mine}\n", names[1])
	fmt.Fprintf(&b, "    - domain: %s\n      ports: [443]\n  rewrite: [{domain: %[1]s, set: {X-Tenant: mine}}]\n", names[2])
	fmt.Fprintf(&b, "  upstream_ca: [%q]\n  hosts:\n", w.Base+"/authority.pem")
	hosts := w.Hosts()
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&b, "    %s: %q\n", name, hosts[name])
	}
	if err := write(w.Base+"/config/cloister/config.yaml", b.String()); err != nil {
		return err
	}
	guardian := exec.CommandContext(w.ctx, w.Cloister, "guardian", "daemon")
	guardian.Env, guardian.Dir = w.environ(), "/"
	guardian.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	log := &bytes.Buffer{}
	guardian.Stdout, guardian.Stderr = log, log
	if err := guardian.Start(); err != nil {
		return fmt.Errorf("start guardian: %w", err)
	}
	w.guardian, w.Guardian = guardian, guardian.Process.Pid // Close ends what has started
	for range 200 {
		if c, err := net.Dial("unix", w.Socket); err == nil {
			c.Close()
			return nil
		}
		if err := w.pause(25 * time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("start guardian: it does not answer: %s", log)
}

// Know is what an attempt is told, as text.
func (w *World) Know() (string, error) {
	know, err := json.Marshal(w.Inside)
	if err != nil {
		return "", fmt.Errorf("tell what is known: %w", err)
	}
	return string(know), nil
}

// Events are the record.
func (w *World) Events() ([]audit.Event, error) {
	var out []audit.Event
	for e, err := range audit.Read(w.Audit, audit.Filter{}) {
		if err != nil {
			return nil, fmt.Errorf("read the record: %w", err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Remember takes the digests of everything that must not change.
func (w *World) Remember() error {
	var err error
	w.canaries, err = w.digests()
	return err
}

// Damage names what has changed since, with its text.
func (w *World) Damage() (map[string]string, error) {
	now, err := w.digests()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for path, sum := range w.canaries {
		if now[path] != sum {
			text, err := os.ReadFile(path)
			out[path] = fmt.Sprintf("%.300s %v", text, err)
		}
	}
	for path := range now {
		if _, was := w.canaries[path]; !was {
			text, err := os.ReadFile(path)
			out[path] = fmt.Sprintf("new: %.300s %v", text, err)
		}
	}
	return out, nil
}

// digests are of all files outside of the project, and of the protected ones
// in it, but for cloister's own.
func (w *World) digests() (map[string]string, error) {
	out := map[string]string{}
	own := []string{w.Base + "/state", w.Base + "/data", w.Base + "/run", w.Home + "/.kube/cache"} // the last is kubectl's
	err := filepath.WalkDir(w.Base, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(own, path):
			return fs.SkipDir
		case strings.HasPrefix(path, w.Project+"/") && !w.guarded(path):
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			out[path] = d.Type().String()
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		out[path] = hex.EncodeToString(sum[:8])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the canaries: %w", err)
	}
	return out, nil
}

// guarded tells whether a path of the project is one that the host obeys.
func (w *World) guarded(path string) bool {
	rel := strings.TrimPrefix(path, w.Project+"/")
	for _, name := range []string{".git/hooks", ".git/config", ".git/info", ".vscode", ".claude", "sub/.envrc", ".mcp.json", ".npmrc", ".envrc"} {
		if rel == name || strings.HasPrefix(rel, name+"/") {
			return true
		}
	}
	return false
}

// Sunk is what came to the sinks, in words.
func (w *World) Sunk() []string { return w.sinks.take() }

// Upstream is what the servers behind allowed names were sent.
func (w *World) Upstream() []string { return w.sinks.sent() }

// VictimLives tells whether the canary process is still there.
func (w *World) VictimLives() bool {
	return syscall.Kill(w.PID, 0) == nil
}

// Close ends everything and removes the world.
func (w *World) Close() error {
	var errs []error
	if w.guardian != nil {
		_ = w.guardian.Process.Signal(syscall.SIGTERM) // it may have ended
		done := make(chan error, 1)
		go func() { done <- w.guardian.Wait() }()
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			errs = append(errs, errors.New("the guardian did not end"), w.guardian.Process.Kill())
			<-done
		}
	}
	if w.victim != nil {
		_ = w.victim.Process.Kill() // an attempt may have ended it
		_ = w.victim.Wait()
	}
	if w.sinks != nil {
		w.sinks.close()
	}
	_ = filepath.WalkDir(w.Base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(append(errs, os.RemoveAll(w.Base))...)
}

// victim is a process of the host for attempts to signal, trace and read.
func victim(ctx context.Context, self string) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, self, "victim")
	c.Env = []string{"VICTIM=" + secret}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start the canary process: %w", err)
	}
	return c, nil
}
