package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/workspace"
)

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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
	var box sandbox.Box
	h.Run(t, Options{During: func(b sandbox.Box) { box = b }}, "sh", "-c",
		"(setsid sh -c 'trap \"\" HUP TERM; while :; do date > beat; sleep 0.05; done' &) ; "+
			"until [ -s beat ]; do sleep 0.05; done; sleep 0.2")
	beat := filepath.Join(h.Project, "beat")
	if h.copies { // what it wrote lies here, and nothing more comes from there: not even a command is run
		s := h.last
		s.Argv = []string{"true"}
		e, err := h.Driver.Exec(t.Context(), box.Handle(), s, sandbox.Wiring{})
		if err == nil {
			_, err = e.Wait()
		}
		if err == nil {
			t.Error("a command was run in what has ended")
		}
	}
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
		sandbox.Wiring{Arm: shut, Stdin: dir, Stdout: null, Stderr: null})
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
	h.Run(t, Options{
		During: func(b sandbox.Box) {
			defer b.Close()
			h.awaitFile(t, b, "ready")
			spec := h.last
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
	if h.copies { // the home ended with its box, and no folder of the host is shown in another
		expose := func(o *workspace.Options) { o.Expose = []workspace.Expose{{Path: filepath.Join(h.Home, "tool/bin")}} }
		h.refused(t, Options{View: expose}, "files of this host")
		return
	}
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
	}, "sh", "-c", "'"+bin+"/mytool'; cat '"+bin+"/../.npmrc'; echo x > '"+bin+"/mytool'; ls ~/.nvm/alias")
	want := "toolchain\n"
	if h.copies {
		want = "" // its programs are the image's
	}
	if out.Err != nil || out.Stdout != want {
		t.Errorf("%+v", out)
	}
}

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

// covers waits for the cover of a file, which goes away with the file that someone
// outside replaces and comes back over the new one. Whether it is there is tried, as a
// kernel of the cloister's own has a list of mounts of its own.
const covers = `covered() { for n in $(seq 600); do (exec 3>>"$1") 2>/dev/null || return; sleep 0.05; done
	echo "no cover of $1"; }
`

// replaced: what the host's own programs put in a protected file's place is
// protected as the old one was.
func replaced(t *testing.T, h *Harness) {
	h.git(t, h.Project, "init", "-q")
	h.git(t, h.Project, "commit", "-q", "--allow-empty", "-m", "first")
	h.Write(t, ".envrc", "original")
	wait := covers + "touch ready; while [ ! -e go ]; do sleep 0.05; done; "
	want := "replaced"
	if h.copies { // it sees nothing of what the host does
		want = "original"
	} else {
		wait += "covered .envrc; covered .git/config; "
	}
	out := h.Run(t, Options{Env: identity, During: func(b sandbox.Box) {
		h.awaitFile(t, b, "ready")
		h.git(t, h.Project, "config", "user.name", "host")
		h.Write(t, ".envrc.new", "replaced")
		if err := os.Rename(filepath.Join(h.Project, ".envrc.new"), filepath.Join(h.Project, ".envrc")); err != nil {
			t.Error(err)
		}
		h.tell(t, b, "go")
	}}, "sh", "-c", wait+"git config core.fsmonitor evil; echo evil >> .envrc; cat .envrc; rm -f ready go; true")
	if out.Err != nil || !strings.HasPrefix(out.Stdout, want) || strings.Contains(out.Stdout, "evil") && !h.copies {
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

// refused starts what a driver cannot keep, and wants the guarantee named.
func (h *Harness) refused(t testing.TB, o Options, guarantee string) {
	t.Helper()
	out := h.Run(t, o, "true")
	if no, ok := errors.AsType[*sandbox.Unsupported](out.Err); !ok || no.Guarantee != guarantee {
		t.Errorf("%+v, want a refusal that names %q", out, guarantee)
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
