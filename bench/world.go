package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/bench/facts"
)

// world is an instance of its own, with the programs that are measured.
type world struct {
	raw      *raw
	short    bool
	million  bool
	quick    bool
	dir      string // everything is below; removed at the end
	bin      string
	cloister string
	project  string
	env      []string
	peers    map[string]peer
	running  []*exec.Cmd // ended at the close, by their ids
}

// settings is the configuration of the world: one name for what runs on
// loopback, by the person's explicit word, at ports that the system chose.
const settings = `version: 1
proxy:
  unlisted_domain_behavior: deny
  hosts: {sink.bench.example: "127.0.0.1:%[1]d", ask.bench.example: "127.0.0.1:%[1]d"}
  allow: [{domain: sink.bench.example, ports: [%[1]d]}]
  ask: [{domain: ask.bench.example, ports: [%[1]d]}]
`

func newWorld(ctx context.Context, o options) (*world, error) {
	dir, err := os.MkdirTemp("", "cb")
	if err != nil {
		return nil, fmt.Errorf("make the world: %w", err)
	}
	w := &world{short: o.short, million: o.million, quick: o.quick, dir: dir, bin: o.binaries, peers: map[string]peer{}}
	if err := w.fill(ctx, o); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) fill(ctx context.Context, o options) error {
	w.raw = &raw{Time: time.Now().UTC(), Short: o.short, Peers: map[string]string{}}
	if err := os.Chmod(w.dir, 0o755); err != nil { // the other user of -as reads the binaries
		return fmt.Errorf("make the world: %w", err)
	}
	home := filepath.Join(w.dir, "home")
	w.project = filepath.Join(home, "project")
	for _, d := range []string{filepath.Join(w.project, ".git", "refs"), filepath.Join(w.project, ".git", "objects"), filepath.Join(home, "run"), filepath.Join(home, "c", "cloister")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the world: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.project, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		return fmt.Errorf("make the world: %w", err)
	}
	w.env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LANG=C.UTF-8", "TERM=dumb",
		"XDG_CONFIG_HOME=" + home + "/c", "XDG_STATE_HOME=" + home + "/s",
		"XDG_DATA_HOME=" + home + "/d", "XDG_RUNTIME_DIR=" + home + "/run",
	}
	if err := w.build(ctx); err != nil {
		return err
	}
	w.cloister = filepath.Join(w.bin, "cloister")
	if err := w.facts(ctx); err != nil {
		return err
	}
	return w.findPeers(ctx, o.install)
}

// build makes the product and the small programs it is compared with.
func (w *world) build(ctx context.Context) error {
	if w.bin != "" {
		return nil
	}
	w.bin = filepath.Join(w.dir, "bin")
	hello := filepath.Join(w.dir, "hello")
	if err := os.MkdirAll(hello, 0o755); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	for name, text := range map[string]string{
		"go.mod":  "module hello\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"os\"\n\nfunc main() { _, _ = os.Stdout.WriteString(\"hello\\n\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(hello, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("build: %w", err)
		}
	}
	for _, b := range []struct{ out, dir, pkg string }{
		{"cloister", "", "./cmd/cloister"}, {"bench", "", "./bench"}, {"hello", hello, "."},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(w.bin, b.out), b.pkg)
		cmd.Dir = b.dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false") // as it is released
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", b.pkg, err, out)
		}
	}
	return nil
}

// facts are what a reader must know of the machine.
func (w *world) facts(ctx context.Context) error {
	r := w.raw
	r.Cores, r.Go, r.User = runtime.NumCPU(), runtime.Version(), "user"
	if os.Getuid() == 0 {
		r.User = "root"
	}
	r.Machine = facts.Field("/proc/cpuinfo", "model name")
	if kib, err := strconv.Atoi(strings.TrimSuffix(facts.Field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		r.MemoryG = (kib + 1<<19) >> 20
	}
	r.Kernel, _, _ = strings.Cut(facts.FirstWords("/proc/sys/kernel/osrelease", 1), "-") // the rest is the builder's own
	r.Load = facts.FirstWords("/proc/loadavg", 3)
	out, err := w.command(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		// An ordinary user of -as has no clone: the binary knows its commit.
		text, err := os.ReadFile(filepath.Join(w.bin, "commit"))
		if err != nil {
			return fmt.Errorf("name the commit: %w", err)
		}
		r.Commit, r.Dirty = strings.TrimSuffix(string(text), "+"), strings.HasSuffix(string(text), "+")
		return nil
	}
	r.Commit = strings.TrimSpace(string(out))
	status, err := w.command(ctx, "git", "status", "--porcelain", "--", "*.go", "go.mod").Output()
	if err != nil {
		return fmt.Errorf("name the commit: %w", err)
	}
	text := r.Commit
	if r.Dirty = len(bytes.TrimSpace(status)) > 0; r.Dirty {
		text += "+"
	}
	if err := os.WriteFile(filepath.Join(w.bin, "commit"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("name the commit: %w", err)
	}
	return nil
}

// command runs in the tree, with the environment that git and go need.
func (w *world) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

// in is a command in the world: its project, its environment.
func (w *world) in(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = w.project, w.env
	return cmd
}

// apart gives a program a session of its own, as the guardian and every cloister have
// one. The kernel schedules sessions as groups (autogroup), and wakes a program sooner
// by another of its own: alike for all, or direct and the peers are flattered.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// said runs a command to its end and gives what it printed.
func (w *world) said(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := w.in(ctx, name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
}

// guardian starts one with the settings for a server at a port, and gives its
// process id.
func (w *world) guardian(ctx context.Context, port int) (pid int, err error) {
	return w.guardianOf(ctx, fmt.Sprintf(settings, port))
}

// guardianOf starts one with a configuration.
func (w *world) guardianOf(ctx context.Context, text string) (pid int, err error) {
	if err := w.stopGuardian(ctx); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "home", "c", "cloister", "config.yaml"), []byte(text), 0o600); err != nil {
		return 0, fmt.Errorf("configure: %w", err)
	}
	if _, err := w.said(ctx, w.cloister, "guardian", "start"); err != nil {
		return 0, err
	}
	out, err := w.said(ctx, w.cloister, "guardian", "status", "--json")
	if err != nil {
		return 0, err
	}
	var status struct{ PID int }
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, fmt.Errorf("read status: %w", err)
	}
	return status.PID, nil
}

func (w *world) stopGuardian(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(w.dir, "home", "run", "cloister", "guardian.sock")); err != nil {
		return nil // none runs
	}
	_, err := w.said(ctx, w.cloister, "guardian", "stop")
	return err
}

// close ends what runs and removes every file.
func (w *world) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if w.cloister != "" {
		err = w.stopGuardian(ctx)
	}
	for _, cmd := range w.running {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range w.running {
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // it was told to end
		timer.Stop()
	}
	w.running = nil
	return errors.Join(err, os.RemoveAll(w.dir))
}

// again runs the bench as an ordinary user with the binaries that are there.
// The world is gone by now, so they are copied first.
func again(ctx context.Context, _ *world, o options) error {
	u, err := user.Lookup(o.as)
	if err != nil {
		return fmt.Errorf("measure as %s: %w", o.as, err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("measure as %s: %w", o.as, err)
	}
	next, err := newWorld(ctx, options{short: o.short})
	if err != nil {
		return err
	}
	defer func() { _ = next.close() }()
	out := filepath.Join(next.dir, "out")
	if err := errors.Join(os.Mkdir(out, 0o700), os.Chown(out, int(uid), int(gid))); err != nil {
		return fmt.Errorf("measure as %s: %w", o.as, err)
	}
	args := []string{"-binaries", next.bin, "-out", out, "-only", o.only}
	if o.short {
		args = append(args, "-short")
	}
	if o.quick {
		args = append(args, "-quick")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(next.bin, "bench"), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + u.HomeDir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure as %s: %w", o.as, err)
	}
	if o.out == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(out, "*.json"))
	if err != nil {
		return fmt.Errorf("measure as %s: %w", o.as, err)
	}
	for _, f := range files {
		if err := copyFile(f, filepath.Join(o.out, filepath.Base(f)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
