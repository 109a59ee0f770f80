package sandboxtest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
)

func cases(t *testing.T, newDriver func() sandbox.Driver, atOnce bool, differs []Difference) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, h *Harness)
	}{
		{"status", status}, {"signals", signals}, {"streams", streams}, {"missing command", missing},
		{"environment", environment}, {"host is invisible", invisible}, {"system is read-only", readOnly},
		{"project is live", live}, {"protected paths", protected}, {"absent paths", absent},
		{"protected folder cannot be moved", pinned}, {"repository", repository}, {"linked worktree", worktree},
		{"submodule", submodule}, {"overlays", overlays},
		{"no way out", noWayOut}, {"gate", gate}, {"privileges", privileges}, {"stragglers", stragglers},
		{"fork bomb", forkBomb}, {"folder as input", folderInput}, {"arm refuses", armRefuses}, {"exec", execMore},
		{"planted links in the private home", plantedLinks}, {"hidden files", hidden}, {"a folder that was shut", shutFolder},
		{"the host replaces a hidden file", hiddenAgain}, {"a hidden file goes away", hiddenGone},
		{"symbolic link to settings", linkedSettings},
		{"toolchain of the home", toolchain}, {"set-id bits", setID}, {"what git is led by", gitLed},
		{"no repository is made", gitInit},
		{"the host cleans", gitClean}, {"settings lie elsewhere", foreignSettings},
		{"the host replaces a protected file", replaced}, {"a port inside", published}, {"cloisters beside it", beside},
		{"files come out right", files}, {"file watching", watched},
		{"a kept memory", keptMemory}, {"debuggers", traced}, {"a stop is no end", stopped},
		{"standard descriptors by name", named},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if atOnce && tt.name != "environment" { // it sets this process's own
				t.Parallel()
			}
			h := New(t, newDriver())
			h.differs = differs
			tt.run(t, h)
		})
	}
}

func status(t *testing.T, h *Harness) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -TERM $$": 143,
		"kill -KILL $$": 137} {
		if out := h.sh(t, script); out.Status.ExitCode() != want {
			t.Errorf("%s: %d, want %d", script, out.Status.ExitCode(), want)
		}
	}
}

func signals(t *testing.T, h *Harness) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		ready := filepath.Join(h.Project, "ready")
		os.Remove(ready)
		out := h.Run(t, Options{During: func(b sandbox.Box) {
			h.awaitFile(t, b, "ready")
			if err := b.Signal(sig); err != nil {
				t.Error(err)
			}
		}}, "sh", "-c", "trap 'echo INT; exit 3' INT; trap 'echo TERM; exit 4' TERM; trap 'echo HUP; exit 5' HUP; trap "+
			"'echo USR1; exit 6' USR1; touch ready; while :; do sleep 0.05; done")
		want := map[syscall.Signal]int{syscall.SIGINT: 3, syscall.SIGTERM: 4, syscall.SIGHUP: 5, syscall.SIGUSR1: 6}[sig]
		if out.Err != nil || out.Status.ExitCode() != want {
			t.Errorf("%v: %+v, want exit %d", sig, out, want)
		}
	}
}

func await(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Error("did not happen in 30 s")
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func streams(t *testing.T, h *Harness) {
	all := make([]byte, 0, 1<<16)
	for i := range 1 << 16 {
		all = append(all, byte(i), byte(i>>8))
	}
	out := h.Run(t, Options{Stdin: string(all)}, "sh", "-c", "cat; echo -n err >&2")
	if out.Err != nil || !bytes.Equal([]byte(out.Stdout), all) || out.Stderr != "err" {
		t.Errorf("streams changed: %d bytes of %d, stderr %q, %v", len(out.Stdout), len(all), out.Stderr, out.Err)
	}
	// The end of output is seen when the command closes it, not when it ends.
	out = h.Run(t, Options{}, "sh", "-c", "exec >&- 2>&-; exit 9")
	if out.Status.ExitCode() != 9 {
		t.Errorf("closed output: %+v", out)
	}
}

func missing(t *testing.T, h *Harness) {
	h.Write(t, "plain", "no program")
	for name, wantMissing := range map[string]bool{"no-such-command": true, "/no/such": true, "./plain": false,
		"/usr": false} {
		out := h.Run(t, Options{}, name)
		if h.differ(StatusOfShell) {
			want := map[bool]int{true: 127, false: 126}[wantMissing]
			if out.Err != nil || out.Status.Code != want || !strings.Contains(out.Stderr, name) {
				t.Errorf("%s: %+v, want status %d", name, out, want)
			}
			continue
		}
		var e *sandbox.ExecError
		if !errors.As(out.Err, &e) || e.NotFound != wantMissing {
			t.Errorf("%s: %v, want an ExecError with NotFound=%v", name, out.Err, wantMissing)
		}
	}
}

func environment(t *testing.T, h *Harness) {
	t.Setenv("CANARY_TOKEN", "secret")
	t.Setenv("LD_PRELOAD", "")
	out := h.Run(t, Options{Env: []string{"NAMED=x y"}}, "/usr/bin/env", "-0")
	got := strings.Split(strings.TrimSuffix(out.Stdout, "\x00"), "\x00")
	slices.Sort(got)
	want := []string{"HOME=" + h.Home, "NAMED=x y", "PATH=/usr/local/bin:/usr/bin:/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	words := "tr '\\0' '\\n' < /proc/1/cmdline; cat /proc/1/task/*/cmdline 2>/dev/null; "
	if h.differ(Attendants) {
		words = ""
	}
	out = h.sh(t, words+"cat /proc/1/environ 2>/dev/null; for f in /proc/1/fd/*; do readlink $f; done")
	if strings.TrimSpace(strings.Trim(out.Stdout, "\n\x00")) != "" {
		t.Errorf("the first process shows %q", out.Stdout)
	}
}

func invisible(t *testing.T, h *Harness) {
	h.Write(t, filepath.Join(h.Home, "diary.txt"), "canary")
	paths := []string{
		filepath.Join(h.Home, ".ssh/id_ed25519"), filepath.Join(h.Home, "diary.txt"), h.data,
		"/etc/shadow", "/etc/ssh", "/root/.bashrc", "/run/docker.sock", "/var/run/docker.sock", "/sys/firmware",
		"/sys/fs/cgroup", "/sys/kernel",
		"/proc/kcore", "/dev/kvm", "/dev/mem", "/dev/vda", "/boot", "/var/lib/dpkg", "/lost+found",
	}
	// The last is the control: it can be read.
	out := h.Run(t, Options{}, append([]string{"sh", "-c",
		`for p; do [ -z "$(head -c 1 "$p" 2>/dev/null | tr '\\0' x)" ] || echo "$p"; done`, "sh"},
		append(paths, "/etc/passwd")...)...)
	if out.Err != nil || out.Stdout != "/etc/passwd\n" {
		t.Errorf("can be read: %+v", out)
	}
	otherMachine(t, h)
	// Every process that is seen is one of the cloister's own: the first, the
	// shell and what it runs.
	out = h.sh(t, "for p in /proc/[0-9]*; do echo ${p#/proc/}; done")
	if n := len(strings.Fields(out.Stdout)); n > 3 {
		t.Errorf("%d processes are seen", n)
	}
	if h.differ(Attendants) {
		return
	}
	// What built the cloister may still be closing its own.
	if out := h.sh(t, "for i in 1 2 3 4 5 6 7 8 9; do n=$(cat /proc/net/unix | wc -l); [ $n -gt 1 ] || break; sleep "+
		"0.3; done; echo $n; hostname"); out.Stdout != "1\ntest-box\n" {
		t.Errorf("sockets and host name: %q", out.Stdout)
	}
}

func readOnly(t *testing.T, h *Harness) {
	const write = `for p; do { echo x >> "$p"; } 2>/dev/null && echo "$p"; done; true`
	fixed := []string{"/x", "/usr/x", "/etc/passwd", "/etc/x", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
		"/sys/devices/system/cpu/x", "/dev/x", "/opt/x", "/home/x", "/run/x", "/var/x"}
	free := []string{"/tmp/x", "/var/tmp/x", "/dev/shm/x", "/dev/null", h.Home + "/x"}
	out := h.Run(t, Options{}, slices.Concat([]string{"sh", "-c", write, "sh"}, fixed, free)...)
	if want := strings.Join(free, "\n") + "\n"; out.Err != nil || out.Stdout != want {
		t.Errorf("can be written: %+v, want %q", out, want)
	}
	if _, err := os.Stat(filepath.Join(h.Home, "x")); err == nil {
		t.Error("the private home is the host's")
	}
	// The private home lasts, /tmp does not. What the project lies in is there.
	above, _, _ := strings.Cut(strings.TrimPrefix(h.Project, "/tmp/"), "/")
	want := "x\n"
	if h.copies {
		want = "" // the home is the box's own, and ends with it
	}
	if out := h.sh(t, "cat ~/x; ls /tmp | grep -vxF '"+above+"'"); out.Stdout != want {
		t.Errorf("second session sees %q", out.Stdout)
	}
}

func live(t *testing.T, h *Harness) {
	h.Write(t, "a b/ü.txt", "old")
	out := h.sh(t, "pwd; cat 'a b/ü.txt'; echo new > 'a b/ü.txt'; mkdir sub && echo made > sub/f; ln -s f sub/l; mkfifo "+
		"p; id -u")
	want := h.Project + "\nold"
	if !strings.HasPrefix(out.Stdout, want) || out.Status.ExitCode() != 0 {
		t.Errorf("got %+v", out)
	}
	for path, want := range map[string]string{"a b/ü.txt": "new\n", "sub/f": "made\n"} {
		if b, err := os.ReadFile(filepath.Join(h.Project, path)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	fi, err := os.Stat(filepath.Join(h.Project, "sub/f"))
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() || fi.Mode().Perm() != 0o644 {
		t.Errorf("a file made inside belongs to %d with mode %v", st.Uid, fi.Mode())
	}
	if strings.HasSuffix(strings.TrimSpace(out.Stdout), "\n0") {
		t.Error("the payload is root inside")
	}
	if out := h.sh(t, "cd /work && cat 'a b/ü.txt'"); !strings.HasPrefix(h.Project, "/work/") && out.Stdout != "new\n" {
		t.Errorf("/work: %+v", out)
	}
}

func protected(t *testing.T, h *Harness) {
	files := []string{".vscode/tasks.json", ".mcp.json", ".envrc", ".claude/settings.json", ".github/workflows/ci.yml",
		"sub/.vscode/settings.json", "sub/.envrc", "x.code-workspace"}
	for _, f := range files {
		h.Write(t, f, "original")
	}
	for _, f := range files {
		out := h.Run(t, Options{}, "sh", "-c",
			`cat "$0" && ! { echo evil >> "$0"; } 2>/dev/null && ! rm -f "$0" 2>/dev/null && ! mv "$0" /tmp/x 2>/dev/null &&
			echo evil > "$0.new" 2>/dev/null; ! mv "$0.new" "$0" 2>/dev/null; rm -f "$0.new" 2>/dev/null; true`, f)
		if out.Err != nil || !strings.Contains(out.Stdout, "original") {
			t.Errorf("%s: %+v", f, out)
		}
		if b, err := os.ReadFile(filepath.Join(h.Project, f)); err != nil || string(b) != "original" {
			t.Errorf("%s was changed to %q, %v", f, b, err)
		}
	}
	if out := h.sh(t, "echo ok > sub/free && echo ok > .github/free && cat sub/free"); out.Stdout != "ok\n" {
		t.Errorf("beside protected files nothing can be written: %+v", out)
	}
}

func absent(t *testing.T, h *Harness) {
	list := []string{".vscode/tasks.json", ".mcp.json", ".envrc", ".claude/settings.json", ".github/workflows/ci.yml",
		".husky/pre-commit", ".cargo/config.toml", ".idea/x"}
	for _, f := range list {
		out := h.Run(t, Options{}, "sh", "-c", `mkdir -p "$(dirname "$0")"; echo evil > "$0"`, f)
		if out.Err != nil || out.Status.ExitCode() == 0 && !h.copies { // of a copy it is not brought back
			t.Errorf("%s could be made: %+v", f, out)
		}
	}
	out := h.sh(t, "rmdir .vscode .claude .github; mv .vscode v; mv .github g; ls -A")
	_ = out
	entries, err := os.ReadDir(h.Project)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 0 {
		t.Errorf("ghosts are left: %v", entries)
	}
}

func pinned(t *testing.T, h *Harness) {
	h.Write(t, ".github/workflows/ci.yml", "original")
	h.Write(t, "deep/er/.vscode/tasks.json", "original")
	out := h.sh(t, "mv .github g && mkdir -p .github/workflows && echo evil > .github/workflows/ci.yml; mv deep d && "+
		"mkdir -p deep/er/.vscode && echo evil > deep/er/.vscode/tasks.json; mv deep/er e")
	for _, f := range []string{".github/workflows/ci.yml", "deep/er/.vscode/tasks.json"} {
		if b, err := os.ReadFile(filepath.Join(h.Project, f)); err != nil || string(b) != "original" {
			t.Errorf("%s: %q, %v (%+v)", f, b, err, out)
		}
	}
}
