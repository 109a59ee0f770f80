package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/workspace"
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

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dial is bash's way to the network, which needs no program.
const dial = `exec 3<>/dev/tcp/$0/$1 && head -c 4 <&3`

// atOnce also reports whether the answer took more than a second.
const atOnce = `s=${EPOCHREALTIME//[!0-9]/}; (` + dial +
	`); c=$?; e=${EPOCHREALTIME//[!0-9]/}; [ $((e - s)) -lt 1000000 ] || echo late; exit $c`

func noWayOut(t *testing.T, h *Harness) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hits := make(chan struct{}, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits <- struct{}{}
			io.WriteString(c, "ping")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	// The control: the same command reaches it from the host.
	ctl := exec.CommandContext(t.Context(), "bash", "-c", dial, "127.0.0.1", port) // the control runs outside
	if b, err := ctl.CombinedOutput(); err != nil || string(b) != "ping" {
		t.Fatalf("control: %q, %v", b, err)
	}
	<-hits
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "198.18.0.1", "192.0.2.1", "::1"} {
		out := h.Run(t, Options{}, "bash", "-c", atOnce, host, port)
		if out.Err != nil || out.Status.ExitCode() == 0 || strings.Contains(out.Stdout, "late") {
			t.Errorf("%s answered, or was refused late: %+v", host, out)
		}
	}
	select {
	case <-hits:
		t.Error("the host's loopback was reached")
	default:
	}
	// Without a gate there is loopback all the same, and nothing else.
	out := h.Run(t, Options{}, "python3", "-c", `
import os, socket
for family, host in [(socket.AF_INET, "127.0.0.1")] + [(socket.AF_INET6, "::1")] * os.path.exists("/proc/sys/net/ipv6"):
    l = socket.create_server((host, 0), family=family); c = socket.create_connection(l.getsockname()[:2]); a, _ = l.accept(); a.send(b"mine"); assert c.recv(4) == b"mine"
for to in ["192.0.2.1", "169.254.169.254", "198.18.0.1"]:
    try: socket.create_connection((to, 443), 3); print("reached", to)
    except OSError as e: assert e.errno in (101, 113), e
print("done")
`)
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "done\n") || strings.Contains(out.Stdout, "reached") {
		t.Errorf("loopback without a gate: %+v", out)
	}
}

func gate(t *testing.T, h *Harness) {
	arm := func(_ context.Context, g sandbox.Gate) error {
		for _, f := range []*os.File{g.TCP4, g.TCP6} {
			if f == nil {
				continue
			}
			l, err := net.FileListener(f)
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					io.WriteString(c, "gate")
					c.Close()
				}
			}()
		}
		pc, err := net.FilePacketConn(g.DNS4)
		if err != nil {
			return err
		}
		t.Cleanup(func() { pc.Close() })
		go func() {
			buf := make([]byte, 512)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				pc.WriteTo(buf[:n], from)
			}
		}()
		g.Close()
		return nil
	}
	for _, to := range []string{"192.0.2.1", "10.1.2.3", "169.254.169.254", "198.18.0.9", "2001:db8::1"} {
		if out := h.Run(t, Options{Arm: arm}, "bash", "-c", dial, to, "443"); out.Err != nil || out.Stdout != "gate" {
			t.Errorf("%s: %+v", to, out)
		}
	}
	// UDP elsewhere is refused at once, not swallowed; DNS reaches the gate.
	out := h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket, time
t = time.monotonic()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect(("192.0.2.1", 443))
try: s.send(b"q"); s.recv(1); print("answered")
except TimeoutError: print("swallowed")
except OSError as e: print("refused", time.monotonic() - t < 1)
d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.settimeout(3); d.sendto(b"hello", ("192.0.2.53", 53)); print(d.recv(10))
`)
	if out.Err != nil || !strings.HasPrefix(out.Stdout, "refused True\n") || !strings.Contains(out.Stdout, "b'hello'") {
		t.Errorf("UDP: %+v", out)
	}
	// What goes to the gate is not sent by timers, whatever the host's TCP does.
	out = h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket
for to in "192.0.2.1", "2001:db8::1":
    c = socket.create_connection((to, 443), 3); print(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
`)
	if out.Err != nil || out.Stdout != "reno\nreno\n" {
		t.Errorf("congestion control: %+v", out)
	}
	// A service inside is the cloister's own.
	out = h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket
l = socket.create_server(("127.0.0.1", 8080)); c = socket.create_connection(("127.0.0.1", 8080)); a, _ = l.accept(); a.send(b"mine"); print(c.recv(4))
`)
	if out.Err != nil || out.Stdout != "b'mine'\n" {
		t.Errorf("loopback inside: %+v", out)
	}
}

func privileges(t *testing.T, h *Harness) {
	out := h.sh(t, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; umask; ulimit -c")
	for line := range strings.SplitSeq(strings.TrimSpace(out.Stdout), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "",
			name == "NoNewPrivs" && value != "1", name == "Seccomp" && value != "2":
			t.Errorf("%s", line)
		}
	}
	if !strings.HasSuffix(out.Stdout, "0022\n0\n") {
		t.Errorf("umask and core size: %q", out.Stdout)
	}
	commands := []string{"unshare -U true", "unshare -n true", "mount -t tmpfs x /tmp", "umount /usr", "chroot / true",
		"mknod /tmp/n c 1 1", "su -c true", "dmesg", "hostname evil", "ip link set lo down",
		"nice -n -5 true && [ $(nice -n -5 nice) -lt 0 ]"}
	if h.differ(Niceness) {
		commands = commands[:len(commands)-1]
	}
	out = h.Run(t, Options{}, slices.Concat([]string{"sh", "-c",
		`for c; do sh -c "$c" >/dev/null 2>&1 && echo "$c"; done; true`, "sh"}, commands, []string{"true"})...)
	if out.Err != nil || out.Stdout != "true\n" { // the control
		t.Errorf("succeeded: %+v", out)
	}
}

func stragglers(t *testing.T, h *Harness) {
	h.sh(t, "(setsid sh -c 'trap \"\" HUP TERM; while :; do date > beat; sleep 0.05; done' &) ; sleep 0.2")
	beat := filepath.Join(h.Project, "beat")
	first := read(t, beat)
	_ = first
	fi, err := os.Stat(beat)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) //nolint:forbidigo // nothing must happen in this time
	if again, err := os.Stat(beat); err != nil || !again.ModTime().Equal(fi.ModTime()) {
		t.Errorf("a straggler lives: %v, %v", again.ModTime(), err)
	}
}

func forkBomb(t *testing.T, h *Harness) {
	began := time.Now()
	out := h.Run(t, Options{
		Change: func(s *sandbox.Spec) { s.Limits.Pids = 50 },
		During: func(b sandbox.Box) {
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // lets the bomb go off
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		},
	}, "sh", "-c", "bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done")
	// The shell that started it may have been refused a process itself, and ended.
	if out.Status.Signal != 9 && !strings.Contains(out.Stderr, "Cannot fork") || time.Since(began) > 20*time.Second {
		t.Errorf("%+v after %v", out, time.Since(began))
	}
	out = h.Run(t, Options{Change: func(s *sandbox.Spec) { s.Limits.Pids = 10 }}, "bash", "-c",
		"for i in $(seq 30); do sleep 1 & done 2>&1; jobs -p | wc -l")
	if strings.TrimSpace(out.Stdout) == "30" {
		t.Errorf("30 processes under a limit of 10: %+v", out)
	}
}

func folderInput(t *testing.T, h *Harness) {
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	_, err = h.Driver.Start(t.Context(), sandbox.Spec{ID: "x", Name: "x", Argv: []string{"true"}, Dir: "/"},
		sandbox.Wiring{Stdin: dir, Stdout: null, Stderr: null})
	if err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder as standard input: %v", err)
	}
}

func armRefuses(t *testing.T, h *Harness) {
	sentinel := errors.New("the guardian says no")
	ran := filepath.Join(h.Project, "ran")
	out := h.Run(t, Options{Arm: func(context.Context, sandbox.Gate) error { return sentinel }}, "touch", ran)
	if !errors.Is(out.Err, sentinel) {
		t.Errorf("got %v", out.Err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran without a guardian")
	}
}

func execMore(t *testing.T, h *Harness) {
	ready := filepath.Join(h.Project, "ready")
	var spec sandbox.Spec
	h.Run(t, Options{
		Change: func(s *sandbox.Spec) { spec = *s },
		During: func(b sandbox.Box) {
			defer b.Close()
			await(t, func() bool { _, err := os.Stat(ready); return err == nil })
			r, w, err := os.Pipe()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer null.Close()
			spec.Argv = []string{"sh", "-c", "cat /tmp/inside; pwd; grep -E '^(CapEff|NoNewPrivs|Seccomp:)' " +
				"/proc/self/status; ! echo x > /usr/x; readlink /proc/self/ns/net /proc/1/ns/net; unshare -U true || exit 5"}
			e, err := h.Driver.Exec(t.Context(), b.Handle(), spec, sandbox.Wiring{Stdin: null, Stdout: w, Stderr: null})
			w.Close()
			if err != nil {
				t.Error(err)
				return
			}
			text, _ := io.ReadAll(r)
			st, err := e.Wait()
			if err != nil || st.ExitCode() != 5 {
				t.Errorf("exec: %+v, %v", st, err)
			}
			want := "hidden\n" + h.Project + "\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
			if !strings.HasPrefix(string(text), want) {
				t.Errorf("exec printed %q, want %q", text, want)
			}
		},
	}, "sh", "-c", "echo hidden > /tmp/inside; touch ready; sleep 60")
}

func plantedLinks(t *testing.T, h *Harness) {
	outside := filepath.Join(h.Home, "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	h.sh(t, "ln -s '"+outside+"' ~/tool; ln -s / ~/root")
	h.Write(t, filepath.Join(h.Home, "tool/bin/x"), "#!/bin/sh\necho tool")
	// The place of the next bind is a planted link: no folder is made behind it.
	p, err := workspace.Find(h.Project)
	if err != nil {
		t.Fatal(err)
	}
	v, err := workspace.Plan(p, workspace.Options{Host: h.resolver(t), Home: h.Home, Data: h.data,
		Locks: filepath.Join(h.data, "locks"), Expose: []workspace.Expose{{Path: filepath.Join(h.Home, "tool/bin")}}})
	if err != nil {
		t.Fatalf("a planted link keeps a session from starting: %v", err)
	}
	if err := v.Release(); err != nil {
		t.Error(err)
	}
	if len(v.Notices) == 0 {
		t.Error("nobody is told that the link was set aside")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("made outside: %v, %v", entries, err)
	}
}

func linkedSettings(t *testing.T, h *Harness) {
	h.Write(t, "shared/settings.json", "original")
	if err := os.Symlink("shared", filepath.Join(h.Project, ".claude")); err != nil {
		t.Fatal(err)
	}
	out := h.sh(t, "cat .claude/settings.json; echo evil > .claude/settings.json; echo evil > shared/settings.json; rm "+
		"-f .claude; mkdir .claude; echo evil > .claude/settings.json; mv .claude c; ls -la .claude")
	if !strings.HasPrefix(out.Stdout, "original") {
		t.Errorf("%+v", out)
	}
	if to, err := os.Readlink(filepath.Join(h.Project, ".claude")); err != nil || to != "shared" ||
		read(t, filepath.Join(h.Project, "shared/settings.json")) != "original" {
		t.Errorf("the link became %q, %v", to, err)
	}
}

func toolchain(t *testing.T, h *Harness) {
	bin := filepath.Join(h.Home, ".nvm/versions/node/v1/bin")
	h.Write(t, filepath.Join(bin, "mytool"), "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/data\"\n")
	h.Write(t, filepath.Join(bin, "../lib/data"), "toolchain\n")
	h.Write(t, filepath.Join(bin, "../.npmrc"), "canary-token")
	h.Write(t, filepath.Join(h.Home, ".nvm/alias/default"), "not shown")
	if err := os.Chmod(filepath.Join(bin, "mytool"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := h.Run(t, Options{
		View:   func(o *workspace.Options) { o.Path = bin + ":/usr/bin:/bin" },
		Change: func(s *sandbox.Spec) { s.Env = append(s.Env, "PATH="+bin+":/usr/bin:/bin") },
	}, "sh", "-c", bin2(bin)+"; cat '"+bin+"/../.npmrc'; echo x > '"+bin+"/mytool'; ls ~/.nvm/alias")
	if out.Err != nil || out.Stdout != "toolchain\n" {
		t.Errorf("%+v", out)
	}
}

func bin2(bin string) string { return "'" + bin + "/mytool'" }

// setID tries every call that could leave a program on the host that runs as
// the workspace's owner.
func setID(t *testing.T, h *Harness) {
	out := h.Run(t, Options{}, "python3", "-c", `
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def try_(name, f):
    try:
        r = f()
        print(name, "passed" if r is None or r >= 0 else "refused")
    except OSError as e: print(name, "refused")
open("f", "w").close()
for mode in (0o4755, 0o2755, 0o6777):
    try_("chmod %o" % mode, lambda: os.chmod("f", mode))
    try_("fchmod %o" % mode, lambda: os.fchmod(os.open("f", os.O_RDONLY), mode))
    try_("open %o" % mode, lambda: os.open("n%o" % mode, os.O_CREAT | os.O_WRONLY, mode))
    try_("tmpfile %o" % mode, lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, mode))
    try_("mknod %o" % mode, lambda: os.mknod("m%o" % mode, mode | 0o100000))
    try_("creat %o" % mode, lambda: libc.creat(b"c%o" % mode, mode))
    try_("fchmodat2 %o" % mode, lambda: libc.syscall(452, -100, b"f", mode, 0))
    try_("openat2 %o" % mode, lambda: libc.syscall(437, -100, b"o%o" % mode, (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0), 24))
os.chmod("f", 0o1755); os.chmod("f", 0o755)
print("end")
`)
	if out.Err != nil || strings.Contains(out.Stdout, "passed") || !strings.HasSuffix(out.Stdout, "end\n") {
		t.Errorf("%+v", out)
	}
	entries, err := os.ReadDir(h.Project)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s has mode %v", e.Name(), fi.Mode())
		}
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

// covers waits for the cover of a file, which goes away with the file that someone
// outside replaces and comes back over the new one. Whether it is there is tried, as a
// kernel of the cloister's own has a list of mounts of its own.
const covers = `covered() { for n in $(seq 600); do (exec 3>>"$1") 2>/dev/null || return; sleep 0.05; done; echo "no cover of $1"; }
`

// replaced: what the host's own programs put in a protected file's place is
// protected as the old one was.
func replaced(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	h.git(t, h.Project, "commit", "-q", "--allow-empty", "-m", "first")
	h.Write(t, ".envrc", "original")
	out := h.Run(t, Options{Env: identity, During: func(sandbox.Box) {
		await(t, func() bool { _, err := os.Stat(filepath.Join(h.Project, "ready")); return err == nil })
		h.git(t, h.Project, "config", "user.name", "host")
		h.Write(t, ".envrc.new", "replaced")
		if err := os.Rename(filepath.Join(h.Project, ".envrc.new"), filepath.Join(h.Project, ".envrc")); err != nil {
			t.Error(err)
		}
		h.Write(t, "go", "")
	}}, "sh", "-c", covers+"touch ready; while [ ! -e go ]; do sleep 0.05; done; covered .envrc; covered .git/config; "+
		"git config core.fsmonitor evil; echo evil >> .envrc; cat .envrc; rm -f ready go; true")
	if out.Err != nil || !strings.HasPrefix(out.Stdout, "replaced") || strings.Contains(out.Stdout, "evil") {
		t.Errorf("%+v", out)
	}
	if got := read(t, filepath.Join(h.Project, ".git/config")); strings.Contains(got, "evil") ||
		!strings.Contains(got, "host") {
		t.Errorf("config: %q", got)
	}
	if got := read(t, filepath.Join(h.Project, ".envrc")); got != "replaced" {
		t.Errorf(".envrc: %q", got)
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
		`git -C lib commit -q --allow-empty -m more && git submodule update && git submodule status && git -C lib status --short
touch ready; while [ ! -e go ]; do sleep 0.05; done
for n in $(seq 400); do grep -q worktree .git/modules/lib/config || break; sleep 0.05; done
git submodule update && echo again; git -C lib config core.fsmonitor evil; echo evil >>.git/modules/lib/config; rm -f .git/modules/lib/config; true`)
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "again\n") || !strings.Contains(out.Stdout, " lib (") {
		t.Errorf("%+v", out)
	}
	if got := read(t, settings); strings.Contains(got, "evil") || !strings.Contains(got, "host") ||
		!strings.Contains(got, "worktree = ") {
		t.Errorf("the host's settings: %q", got)
	}
}

// foreignSettings: protected paths of every kind of file let a session start.
func foreignSettings(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	outside := filepath.Join(h.Home, "githooks")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.Project, ".git/hooks")); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{".git/hooks": outside, ".vscode": "../nowhere", ".envrc": ".envrc"} {
		if err := os.Symlink(to, filepath.Join(h.Project, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(h.Project, ".npmrc"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(h.Project, "host.sock"))
	if err != nil {
		t.Skipf("the path is too long for a socket: %v", err)
	}
	defer l.Close()
	out := h.sh(t, "rm -f .vscode .envrc .npmrc .git/hooks host.sock; mkdir .git/hooks; ls -la; python3 -c 'import "+
		"socket; socket.socket(socket.AF_UNIX).connect(\"host.sock\")' && echo CONNECTED; true")
	if strings.Contains(out.Stdout, "CONNECTED") {
		t.Errorf("a socket of the host was reached: %+v", out)
	}
	for _, name := range []string{".git/hooks", ".vscode", ".envrc"} {
		if fi, err := os.Lstat(filepath.Join(h.Project, name)); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s was replaced: %v, %v", name, fi, err)
		}
	}
}
