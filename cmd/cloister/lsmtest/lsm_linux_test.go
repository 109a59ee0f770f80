// Package lsmtest runs the built product in a guest whose kernel judges files: what a
// statement of Cedar comes to there, what is recorded, and what is left.
package lsmtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"cloister/internal/needs"
)

var binary string

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CLOISTER_LSM_PEER") != "":
		if err := peer(os.Getenv("CLOISTER_LSM_PEER")); err != nil {
			fmt.Println(err)
		}
		syscall.Exit(0)
	case os.Getenv("CLOISTER_LSM_KERNELS") != "":
		os.Exit(needs.Cloister(m, &binary))
	case os.Getenv("CLOISTER_GUEST") == "":
		os.Exit(m.Run()) // all are skipped
	case os.Getpid() != 1:
		os.Exit(m.Run())
	}
	if code, err := first(); err != nil {
		fmt.Println("@@ set up the guest:", err)
	} else {
		fmt.Printf("@@ ended %d\n", code)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// first is the guest's first process: it has the tests run in another one, and waits for whatever is left to
// it, as a system's does. A namespace of processes does not end before what is left of it was waited for.
func first() (code int, err error) {
	if err := setUp(); err != nil {
		return 0, err
	}
	tests, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case pid == tests.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// setUp makes a root that can be left, as the first one of a kernel cannot.
func setUp() error {
	if err := errors.Join(os.Mkdir("/new", 0o755), unix.Mount("tmpfs", "/new", "tmpfs", 0, "mode=755")); err != nil {
		return err
	}
	if err := copyAll("/", "/new", "new", "proc", "sys", "dev"); err != nil {
		return err
	}
	for _, dir := range []string{"proc", "sys", "dev", "usr", "etc", "root", "work/tools", "run"} {
		if err := os.MkdirAll("/new/"+dir, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chdir("/new"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/")); err != nil {
		return err
	}
	for _, m := range []struct{ kind, dir, data string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", ""},
		{"cgroup2", "/sys/fs/cgroup", ""}, {"securityfs", "/sys/kernel/security", ""},
		{"bpf", "/sys/fs/bpf", "mode=0700"}, // as systemd does; one that others may open is refused
	} {
		if err := errors.Join(os.MkdirAll(m.dir, 0o755), unix.Mount(m.kind, m.dir, m.kind, 0, m.data)); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "work/plain": "plain text\n",
		"work/secret": "secret text\n", "work/policy.cedar": statements,
	} {
		if err := os.WriteFile("/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(os.Symlink("busybox", "/bin/sh"), os.Link("/work/secret", "/work/also"), os.Link("/bin/busybox", "/work/tools/busybox"),
		os.Setenv("HOME", "/root"), os.Setenv("PATH", "/bin"), os.Setenv("USER", "root"))
}

func copyAll(from, to string, but ...string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(but, name):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		in, err := os.Open(filepath.Join(from, name))
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(filepath.Join(to, name), os.O_WRONLY|os.O_CREATE, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}

// The first no view can keep, since the folder's files are shown; the second the view keeps
// for the name alone.
const statements = `@id("no-tools") forbid (principal, action == Action::"ProcessExec", resource in Dir::"/work/tools/");
@id("no-secret") forbid (principal, action == Action::"FileOpen", resource == File::"/work/secret");
`

// TestGuest boots the newest of the kernels that CLOISTER_LSM_KERNELS names: older ones have
// no Landlock that native would do with. Containers are tried on each of them.
func TestGuest(t *testing.T) {
	list := strings.Split(os.Getenv("CLOISTER_LSM_KERNELS"), ":")
	if list[0] == "" {
		t.Skip("CLOISTER_LSM_KERNELS names no kernels: script/test lsm")
	}
	alone := "^" + containersTest + "$"
	if strings.HasPrefix(guestTests(), alone) {
		alone = guestTests() // and perhaps a part of it
	} else {
		boot(t, needs.Guest{Kernel: list[len(list)-1], Files: map[string]string{"bin/cloister": binary}, Run: guestTests()})
	}
	if ok, err := regexp.MatchString(strings.Split(guestTests(), "/")[0], containersTest); err != nil || !ok {
		return
	}
	for _, kernel := range list {
		g := needs.Guest{Kernel: kernel, Modules: []string{"overlay.ko", "loop.ko"}, Run: alone}
		t.Run("containers on "+g.Release(t), func(t *testing.T) {
			g.Files = engineFiles(t)
			g.Files["bin/cloister"] = binary
			boot(t, g)
		})
	}
}

func boot(t *testing.T, g needs.Guest) {
	t.Helper()
	console := g.Boot(t)
	if !strings.Contains(console, "@@ ended 0") {
		t.Errorf("the guest's tests failed:\n%s", console)
	}
	for line := range strings.Lines(console) {
		if strings.HasPrefix(strings.TrimSpace(line), "--- ") || strings.HasPrefix(line, "@@ ") {
			t.Log(strings.TrimRight(line, "\n"))
		}
	}
}

func inGuest(t *testing.T) {
	if os.Getenv("CLOISTER_GUEST") == "" {
		t.Skip("runs in a guest, which TestGuest starts: script/test lsm")
	}
}

func cloister(t *testing.T, words ...string) (out string, status int) {
	t.Helper()
	c := exec.CommandContext(context.Background(), "/bin/cloister", words...)
	c.Dir = "/work"
	text, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		status = exit.ExitCode()
	}
	return string(text), status
}

const tries = `tools/busybox echo tool ran; cd tools; ./busybox echo near tool ran; cd ..; ln tools/busybox busybox && ./busybox echo linked tool ran;
cat also; cat secret; cat plain; rm -f busybox`

func TestProductJudges(t *testing.T) {
	inGuest(t)
	out, _ := cloister(t, "doctor")
	if !strings.Contains(out, "files and programs by object") || !strings.Contains(out, "attached to a security hook") {
		t.Errorf("doctor:\n%s", out)
	}
	if out, _ := cloister(t, "policy", "check", "policy.cedar"); !strings.Contains(out, "kernel ") || !strings.Contains(out, "view ") {
		t.Errorf("policy check:\n%s", out)
	}
	run := []string{"run", "--isolation", "native", "--no-network"}
	out, _ = cloister(t, append(run, "--", "/bin/busybox", "sh", "-c", tries)...)
	for _, want := range []string{"\ntool ran", "near tool ran", "linked tool ran", "plain text"} {
		if !strings.Contains("\n"+out, want) {
			t.Errorf("the control: no %q in\n%s", want, out)
		}
	}
	if strings.Count(out, "secret text") != 2 {
		t.Errorf("the control: the secret is not read by both names in\n%s", out)
	}
	out, _ = cloister(t, append(run, "--policy", "policy.cedar", "--", "/bin/busybox", "sh", "-c", tries)...)
	if strings.Contains(out, "tool ran") || strings.Contains(out, "secret text") || !strings.Contains(out, "plain text") {
		t.Errorf("with the statements:\n%s", out)
	}
	record, _ := cloister(t, "audit", "export")
	for _, want := range []string{`"kind":"file.denied"`, `"action":"execute"`, `"resource":"/work/tools/busybox"`, `"rule":"no-tools"`,
		`"rule":"no-secret"`, "the kernel refused it to", `"kind":"exec"`, `"resource":"/bin/busybox"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s:\n%s", want, record)
		}
	}
	if left, err := filepath.Glob("/sys/fs/bpf/*"); err != nil || len(left) > 0 {
		t.Errorf("left in the kernel: %q, %v", left, err)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/cloister-*"); err != nil || len(left) > 0 {
		t.Errorf("groups that are left: %q, %v", left, err)
	}
}

// A command that joins is judged too, and a session without its judge is ended.
func TestProductLosesIt(t *testing.T) {
	inGuest(t)
	c := exec.CommandContext(t.Context(), "/bin/cloister", "run", "--isolation", "native", "--no-network", "--name", "lost", "--policy", "policy.cedar",
		"--", "/bin/busybox", "sh", "-c", "echo up; sleep 100000")
	c.Dir = "/work"
	var said strings.Builder
	c.Stderr = &said
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up\n" {
		t.Fatalf("it said %q, %v, and ended: %v\n%s", line, err, c.Wait(), said.String())
	}
	out, _ := cloister(t, "exec", "lost", "--", "/bin/busybox", "sh", "-c", "echo joined; "+tries)
	if !strings.Contains(out, "joined") || strings.Contains(out, "tool ran") || strings.Contains(out, "secret text") || !strings.Contains(out, "plain text") {
		t.Errorf("a command that joined:\n%s", out)
	}
	pins, err := filepath.Glob("/sys/fs/bpf/*/map-sessions")
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins %q, %v", pins, err)
	}
	sessions, err := ebpf.LoadPinnedMap(pins[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	var id uint64
	if err := sessions.NextKey(nil, &id); err != nil {
		t.Fatal(err)
	}
	if err := sessions.Delete(id); err != nil {
		t.Fatal(err)
	}
	// What joins now is not judged.
	if out, status := cloister(t, "exec", "lost", "--", "/bin/busybox", "sh", "-c", tries); status == 0 || strings.Contains(out, "tool ran") ||
		strings.Contains(out, "secret text") {
		t.Errorf("a command that joined without the judge: %d\n%s", status, out)
	} else {
		fmt.Printf("@@ joined without the judge: %s\n", strings.TrimSpace(out))
	}
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "judge of files is gone") {
		t.Errorf("a session that lost its judge went on to its end: %v\n%s", err, said.String())
	}
}

// What the kernel recorded makes a policy, which lets the same pass and nothing else: also not by a
// loader, and not what is changed without being opened.
func TestProductLearns(t *testing.T) {
	inGuest(t)
	const work = "cat plain; echo more >>notes; tools/busybox echo tool ran"
	run := func(script string, words ...string) (string, int) {
		return cloister(t, append(append([]string{"run", "--isolation", "native", "--no-network"}, words...), "--", "/bin/busybox", "sh", "-c", script)...)
	}
	record := learns(t, work, run)
	if !strings.Contains(record, `"arguments":`) {
		t.Errorf("the record has no arguments:\n%s", record)
	}
	if out, status := run(work, "--policy", "made.cedar"); status != 0 || !strings.Contains(out, "plain text") || !strings.Contains(out, "tool ran") {
		t.Errorf("enforce, the same: %d\n%s", status, out)
	}
	out, _ := run("cat secret; chmod 777 secret; cp tools/busybox other; ./other echo copy ran; echo x >new", "--policy", "made.cedar", "--name", "kept")
	if strings.Contains(out, "secret text") || strings.Contains(out, "copy ran") {
		t.Errorf("enforce, what was not recorded:\n%s", out)
	}
	st, err := os.Stat("/work/secret")
	if _, newErr := os.Stat("/work/new"); err != nil || st.Mode().Perm() == 0o777 || !errors.Is(newErr, fs.ErrNotExist) {
		t.Errorf("mode %v, %v; new: %v\n%s", st.Mode(), err, newErr, out)
	}
	record, _ = cloister(t, "audit", "export", "--session", "kept")
	if !strings.Contains(record, `"kind":"file.denied"`) || !strings.Contains(record, `"resource":"/work/secret"`) || !strings.Contains(record, "no rule permits it") {
		t.Errorf("the record of what was refused:\n%s", record)
	}
	shadows(t, run)
}

// A runner runs a script as a session of these words.
type runner func(script string, words ...string) (out string, status int)

// learns has work recorded, and made a list of, in made.cedar; it gives the record.
func learns(t *testing.T, work string, run runner) (record string) {
	t.Helper()
	if err := os.WriteFile("/work/notes", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, status := run(work, "--mode", "record", "--name", "seen"); status != 0 || !strings.Contains(out, "tool ran") {
		t.Fatalf("record: %d\n%s", status, out)
	}
	record, _ = cloister(t, "audit", "export", "--session", "seen")
	for _, want := range []string{`"kind":"file.open"`, `"resource":"/work/plain"`, `"action":"write"`, `"resource":"/work/tools/busybox"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s:\n%s", want, record)
		}
	}
	made, status := cloister(t, "policy", "suggest", "--files", "--session", "seen")
	if status != 0 || !strings.Contains(made, `"/work/plain"`) || !strings.Contains(made, `"/work/tools/busybox"`) {
		t.Fatalf("suggest: %d\n%s", status, made)
	}
	if err := os.WriteFile("/work/made.cedar", []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
	return record
}

// shadows: in mode shadow what made.cedar does not name goes through, and it is on record what would have been refused.
func shadows(t *testing.T, run runner) (record string) {
	t.Helper()
	out, status := run("cat secret; cat plain", "--policy", "made.cedar", "--mode", "shadow", "--name", "shadow")
	if status != 0 || !strings.Contains(out, "secret text") {
		t.Errorf("shadow: %d\n%s", status, out)
	}
	record, _ = cloister(t, "audit", "export", "--session", "shadow")
	if !strings.Contains(record, "not enforced, would have been refused") || !strings.Contains(record, `"resource":"/work/secret"`) {
		t.Errorf("the record of mode shadow:\n%s", record)
	}
	return record
}

// set has other statements ruled by until the test's end, and gives what the reload said.
func set(t *testing.T, text string) string {
	t.Helper()
	const file = "/root/.config/cloister/policy/files.cedar"
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(file)) })
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, _ := cloister(t, "guardian", "reload")
	return out
}

// A change of the configuration's statements rules a running session, and one that cannot leaves
// what ruled before.
func TestProductReloads(t *testing.T) {
	inGuest(t)
	noTools, noSecret, _ := strings.Cut(statements, "\n")
	noPlain := strings.ReplaceAll(strings.ReplaceAll(noSecret, "no-secret", "no-plain"), "/work/secret", "/work/plain")
	set(t, noTools)
	live := begin(t, "run", "--isolation", "native", "--no-network", "--name", "live")
	const tries = "tools/busybox echo tool ran; cat secret; cat plain"
	for _, step := range []struct {
		text, says string
		runs       []string
	}{
		{noTools + noSecret, "", []string{"plain text"}},
		{noTools + noSecret + noPlain, "", nil},
		{noSecret + noPlain, "", []string{"tool ran"}},
		{noSecret + noPlain + strings.ReplaceAll(strings.ReplaceAll(noPlain, "no-plain", "none"), "/work/plain", "/work/none"),
			"/work/none is not there", []string{"tool ran"}},
		{noTools, "", []string{"secret text", "plain text"}},
	} {
		if out := set(t, step.text); strings.Contains(out, "live keeps the statements") != (step.says != "") || !strings.Contains(out, step.says) {
			t.Errorf("the reload said:\n%s, want %q", out, step.says)
		}
		got := live.do(tries)
		for _, what := range []string{"tool ran", "secret text", "plain text"} {
			if strings.Contains(got, what) != slices.Contains(step.runs, what) {
				t.Errorf("under\n%s\n it did\n%s, want %q", step.text, got, step.runs)
			}
		}
	}
	live.end()
	record, _ := cloister(t, "audit", "export", "--session", "live")
	for _, want := range []string{`"resource":"files and programs"`, "in force from here on", "what ruled before rules on", `"rule":"no-plain"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s:\n%s", want, record)
		}
	}
}

func guestTests() string {
	if only := os.Getenv("CLOISTER_LSM_RUN"); only != "" {
		return only
	}
	return "^TestProduct"
}
