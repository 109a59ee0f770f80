package localuser_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/apart"
	"cloister/sandbox/localuser"
)

const (
	// other is a second user whom the helper serves.
	other = 61908
	// sharedOf names a folder that the test prepared for its callers, boxOf another's box.
	sharedOf, boxOf = "CLOISTER_TEST_SHARED_DIR", "CLOISTER_TEST_BOX"
)

// ordered sends an order as a program may that is not Cloister's, and gives what came of it.
func ordered(t *testing.T, o apart.Order, files []*os.File) (text string, err error) {
	t.Helper()
	c, err := net.Dial("unix", socket(t))
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o.Release = release
	o.Spec.ID, o.Spec.Name = "attack", "attack"
	if o.Spec.Dir == "" {
		o.Spec.Dir = "/"
	}
	o.Spec.Env = []string{"PATH=/usr/bin:/bin"}
	o.Spec.User = sandbox.User{ID: 0, Name: "agent", Home: "/tmp"} // who it is is not the caller's to say
	b, err := apart.Over(t.Context(), c.(*net.UnixConn), o, sandbox.Wiring{Stdin: null, Stdout: w, Stderr: w}, files)
	w.Close()
	if err != nil {
		return "", err
	}
	out, _ := io.ReadAll(r)
	_, err = b.Wait()
	return string(out), err
}

func path(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { f.Close() })
	return f
}

// shared makes what callers attack: files of root's, and a folder of the caller's.
func shared(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the helper is root's: run this test as root")
	}
	dir := folder(t, 0)
	for _, f := range []struct {
		name string
		mode os.FileMode
		uid  int
	}{
		{"root/shut/secret", 0o644, 0}, {"root/secret", 0o600, 0}, {"mine/secret", 0o600, caller},
		{"mine/in/root/secret", 0o644, 0}, {"mine/in/own/note", 0o644, caller}, {"over/up/in/root/x", 0o644, caller},
		{"root/work/work/kept", 0o644, 0}, {"over/up/root/x", 0o644, caller}, {"over/up/shut/x", 0o644, caller},
	} {
		at := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(map[bool]string{true: "note", false: "canary"}[filepath.Base(at) == "note"]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(at, f.mode), os.Chown(at, f.uid, f.uid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "over/work"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string]struct {
		uid  int
		mode os.FileMode
	}{
		"root/shut": {0, 0o700}, "mine": {caller, 0o700}, "mine/in": {caller, 0o755}, "mine/in/root": {0, 0o700},
		"over": {caller, 0o755}, "mine/in/own": {caller, 0o700}, "over/up/in": {caller, 0o755}, "over/up/in/root": {caller, 0o755},
		"root/work": {0, 0o755}, "over/up": {caller, 0o755}, "over/work": {caller, 0o755},
		"over/up/root": {caller, 0o755}, "over/up/shut": {caller, 0o755},
	} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.Chown(at, own.uid, own.uid), os.Chmod(at, own.mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "root"), filepath.Join(dir, "over/link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(sharedOf, dir)
	return dir
}

// TestAttacks: a caller gets nothing by the helper that it had not before.
func TestAttacks(t *testing.T) {
	dir := shared(t)
	at := helper(t, localuser.Helper{Allowed: []int{caller, other}, First: payloads + 100, Count: 50})
	asCaller(t, caller, at, "^TestAsCallerAttacks$")
	for _, name := range []string{"root/secret", "root/work/work/kept"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "canary" {
			t.Errorf("root's %s: %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "root/made")); err == nil {
		t.Error("a file was made in root's folder")
	}
}

// TestAttacksOwnAccount: nor where the payload is the caller.
func TestAttacksOwnAccount(t *testing.T) {
	shared(t)
	asCaller(t, caller, deniedHelper(t), "^TestAsCallerAttacks$")
}

func TestAsCallerAttacks(t *testing.T) {
	socket(t)
	dir := os.Getenv(sharedOf)
	show := func(name string, access sandbox.Access) sandbox.Bind {
		return sandbox.Bind{Source: sandbox.HostPath(filepath.Join(dir, name)), Target: "/mnt/x", Access: access}
	}
	sh := func(script string, binds ...sandbox.Bind) sandbox.Spec {
		return sandbox.Spec{Argv: []string{"sh", "-c", script}, Binds: binds}
	}
	upper := func(b sandbox.Bind) sandbox.Bind {
		b.Overlay, b.Upper = true, &sandbox.Upper{Store: sandbox.HostPath(filepath.Join(dir, "over")), Dir: "up", Work: "work"}
		return b
	}
	out := func(b sandbox.Bind, change func(*sandbox.Upper)) sandbox.Bind {
		b = upper(b)
		change(b.Upper)
		return b
	}
	mine := show("mine", sandbox.ReadWrite)
	for _, tt := range []struct {
		name  string
		spec  sandbox.Spec
		files []string
		want  string // of the output, or of the error
	}{
		{"control: a private folder of the caller's", sh("cat /mnt/x/secret; id -u", mine), []string{"mine"}, "canary"},
		{"a folder of root's to write to", sh("true", show("root", sandbox.ReadWrite)), []string{"root"}, "belongs to uid 0"},
		{"the caller's name on root's descriptor", sh("true", mine), []string{"root"}, "belongs to uid 0"},
		{"a shut folder of root's to read", sh("cat /mnt/x/*", show("root/shut", sandbox.ReadOnly)), []string{"root/shut"},
			"Permission denied"},
		{"a private file of root's to read", sh("cat /mnt/x/secret", show("root", sandbox.ReadOnly)), []string{"root"},
			"Permission denied"},
		{"root's folder in the caller's", sh("cat /mnt/x/in/root/secret", mine), []string{"mine"}, "Permission denied"},
		{"root's folder opened by an overlay", sh("cat /mnt/x/shut/secret", upper(show("root", sandbox.ReadOnly))),
			[]string{"root", "over"}, "belongs to uid 0"},
		{"an overlay's folder out of its store", sh("true", out(mine, func(u *sandbox.Upper) { u.Dir = "../root" })),
			[]string{"mine", "over"}, "does not lie in the store"},
		{"a layer out of its store", sh("true", out(mine, func(u *sandbox.Upper) { u.Lower = []string{"/root"} })),
			[]string{"mine", "over"}, "does not lie in the store"},
		{"root's folder merged with the caller's", sh("cat /mnt/x/in/own/note; ls /mnt/x/in/root; cat /mnt/x/in/root/secret",
			out(mine, func(u *sandbox.Upper) { u.Dir, u.Work = "up", "work" })), []string{"mine", "over"},
			"note|overlay workspace"},
		{"an overlay on root's folder by a link", sh("ls -a /mnt/x; echo made >/mnt/x/made",
			out(mine, func(u *sandbox.Upper) { u.Dir, u.Work = "link", "link/work" })), []string{"mine", "over"},
			"too many levels of symbolic links|overlay workspace"},
		{"a layer of root's by a link", sh("ls -a /mnt/x",
			out(mine, func(u *sandbox.Upper) { u.Lower = []string{"link"} })), []string{"mine", "over"},
			"too many levels of symbolic links|overlay workspace"},
		{"too few descriptors", sh("true", mine), nil, "0 descriptors for 1 places"},
		{"a device", sh("true", show("mine", sandbox.ReadOnly)), []string{"/dev/null"}, "no folder and no file"},
		{"a file of root's to copy", sandbox.Spec{Argv: []string{"true"},
			Files: []sandbox.File{{Path: "/x", From: "/etc/shadow"}}}, nil, "to be copied from the host"},
		{"set-id bits", sandbox.Spec{Argv: []string{"true"}, Files: []sandbox.File{{Path: "/x", Mode: 0o4755}}}, nil,
			"has more than a mode"},
		{"an image", sandbox.Spec{Argv: []string{"true"}, Root: sandbox.Root{Dir: "/", ID: "x"}}, nil, "reads no image"},
		{"devices", sandbox.Spec{Argv: []string{"true"}, Devices: []string{"../etc/shadow"}}, nil, "shows no device"},
		{"a path that leads out", sandbox.Spec{Argv: []string{"true"}, Files: []sandbox.File{{Path: "/../x"}}}, nil,
			"no path inside"},
		{"a link for a file made before", sandbox.Spec{Argv: []string{"cat", "/x/hostname"},
			Links: []sandbox.Link{{Path: "/x", Target: "/etc"}}}, nil, "attack"},
		{"all processes ended", sh("kill -KILL -1; echo alive", mine), []string{"mine"}, "alive"},
		{"the first process's memory", sh("head -c 1 /proc/1/mem", mine), []string{"mine"}, "/proc/1/mem"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var files []*os.File
			for _, name := range tt.files {
				if !filepath.IsAbs(name) {
					name = filepath.Join(dir, name)
				}
				files = append(files, path(t, name))
			}
			text, err := ordered(t, apart.Order{Spec: tt.spec}, files)
			all := text + fmt.Sprint(err)
			if !slices.ContainsFunc(strings.Split(tt.want, "|"), func(one string) bool { return strings.Contains(all, one) }) {
				t.Errorf("%q, %v, want %q", text, err, tt.want)
			}
			if strings.Contains(text, "canary") != (tt.want == "canary") {
				t.Errorf("it read %q", text)
			}
		})
	}
	t.Run("no_new_privs", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "setpriv", "--no-new-privs", "/proc/self/exe", "-test.run=^TestAsCallerGaveUp$", "-test.v")
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		cmd.ExtraFiles, cmd.Args[2] = []*os.File{self}, "/proc/self/fd/3"
		if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("a process that is no box", func(t *testing.T) {
		for _, pid := range []int{1, os.Getpid()} {
			_, err := ordered(t, apart.Order{Handle: sandbox.Handle(strconv.Itoa(pid)), Spec: sh("true")}, nil)
			if err == nil {
				t.Errorf("process %d was entered", pid)
			}
		}
	})
	t.Run("a folder swapped by a link", func(t *testing.T) {
		project := filepath.Join(os.Getenv("TMPDIR"), "project")
		if err := os.Mkdir(project, 0o755); err != nil {
			t.Fatal(err)
		}
		f := path(t, project)
		if err := errors.Join(os.Rename(project, project+".was"), os.Symlink(filepath.Join(dir, "root"), project)); err != nil {
			t.Fatal(err)
		}
		b := sandbox.Bind{Source: sandbox.HostPath(project), Target: "/mnt/x", Access: sandbox.ReadWrite}
		if text, err := ordered(t, apart.Order{Spec: sh("ls /mnt/x; echo made >/mnt/x/made", b)}, []*os.File{f}); err != nil || text != "" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := os.Stat(project + ".was/made"); err != nil {
			t.Error(err)
		}
		d := localuser.New(socket(t), release)
		if _, err := d.Start(t.Context(), sh("true", b), sandbox.Wiring{}); !errors.Is(err, unix.ELOOP) {
			t.Errorf("the driver follows a link: %v", err)
		}
	})
}

// TestAsCallerGaveUp runs with no_new_privs.
func TestAsCallerGaveUp(t *testing.T) {
	socket(t)
	_, err := ordered(t, apart.Order{Spec: sandbox.Spec{Argv: []string{"true"}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "no_new_privs") {
		t.Errorf("got %v", err)
	}
}

// hold begins a box of a caller's in a process of its own, and gives the box's first process.
func hold(t *testing.T, at string) (cmd *exec.Cmd, init int) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe", deniedName, strconv.Itoa(caller), "/proc/self/exe",
		"-test.run=^TestAsCallerHolds$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), socketOf+"="+at, "TMPDIR="+folder(t, caller))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()         // it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "BOX %d", &init); err == nil {
			return cmd, init
		}
	}
	t.Fatal("the caller began no box")
	return nil, 0
}

func TestAsCallerHolds(t *testing.T) {
	socket(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}); err != nil {
		t.Fatal(err)
	}
	b, err := localuser.New(socket(t), release).Start(t.Context(), sandbox.Spec{ID: "held", Name: "held",
		Argv: []string{"sleep", "1000"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		User: sandbox.User{ID: caller, Name: "agent", Home: "/tmp"}}, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("BOX", sandbox.ProcessOf(b))
	_, _ = b.Wait()
}

// gone waits until a process is.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
			tick.Stop()
			return
		}
		select {
		case <-deadline:
			t.Errorf("process %d lives 30 s later", pid)
			return
		case <-tick.C:
		}
	}
}

// of is a line of a process's status.
func of(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			value, _, _ = strings.Cut(strings.TrimSpace(value), "\t")
			return value
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return ""
}

// TestEnds: a box ends with its caller and with the process that owns it, and not with the
// helper. Another caller cannot enter it, nor end what owns it.
func TestEnds(t *testing.T) {
	at := helper(t, localuser.Helper{Allowed: []int{caller, other}, First: payloads + 200, Count: 50})
	first, init := hold(t, at)
	_, second := hold(t, at)
	if a, b := of(t, init, "Uid"), of(t, second, "Uid"); a == b || a == strconv.Itoa(caller) || a == "0" {
		t.Errorf("two boxes of one caller have the users %s and %s", a, b)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", init))
	if err != nil || !strings.Contains(string(limits), "Max open files            200                  200") {
		t.Errorf("the caller's limits do not hold: %v\n%s", err, limits)
	}
	owner, err := strconv.Atoi(of(t, init, "PPid"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(boxOf, fmt.Sprint(init, " ", owner))
	asCaller(t, caller, at, "^TestAsCallerEnters$")
	t.Setenv(boxOf, fmt.Sprint(-init, " ", owner))
	asCaller(t, other, at, "^TestAsCallerEnters$")

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, init)
	gone(t, owner)
	if owner, err = strconv.Atoi(of(t, second, "PPid")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(owner, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, second)
}

// TestAsCallerEnters enters a box, which the caller may if it is its own.
func TestAsCallerEnters(t *testing.T) {
	socket(t)
	var init, owner int
	if _, err := fmt.Sscan(os.Getenv(boxOf), &init, &owner); err != nil {
		t.Fatal(err)
	}
	own := init > 0
	if !own {
		init = -init
	}
	text, err := ordered(t, apart.Order{Handle: sandbox.Handle(strconv.Itoa(init)),
		Spec: sandbox.Spec{Argv: []string{"sh", "-c", "cat /proc/*/comm | sort | uniq"}}}, nil)
	if own != (err == nil) || own != strings.Contains(text, "sleep") {
		t.Errorf("its own is %v: %q, %v", own, text, err)
	}
	thaw, err := localuser.New(socket(t), release).Hold(sandbox.Handle(strconv.Itoa(init)))
	if own != (err == nil) {
		t.Errorf("its own is %v: held: %v", own, err)
	}
	if err == nil {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", init, init))
		if err != nil {
			t.Fatal(err)
		}
		var command int
		if _, err := fmt.Sscan(string(text), &command); err != nil || !strings.HasPrefix(of(t, command, "State"), "T") {
			t.Errorf("process %d is not held: %s, %v", command, of(t, command, "State"), err)
		}
		if err := thaw(); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Kill(owner, unix.SIGKILL); !errors.Is(err, unix.EPERM) {
		t.Errorf("the process of root's was ended: %v", err)
	}
	for _, pid := range []int{init, owner} {
		if f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil {
			f.Close()
			t.Errorf("the memory of process %d can be opened", pid)
		}
	}
}

// TestLayerOff: without any one of its powers the helper cannot build, and then builds nothing.
func TestLayerOff(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the helper is root's: run this test as root")
	}
	for name, capability := range map[string]int{
		"mounts": unix.CAP_SYS_ADMIN, "the gate": unix.CAP_NET_ADMIN, "questions": unix.CAP_NET_BIND_SERVICE,
		"giving up": unix.CAP_SETPCAP, "another user": unix.CAP_SETUID, "another group": unix.CAP_SETGID,
	} {
		t.Run(name, func(t *testing.T) {
			at := helperProcess(t, "-"+strconv.Itoa(capability))
			asCaller(t, caller, at, "^TestAsCallerBuildsNothing$")
		})
	}
}

func TestAsCallerBuildsNothing(t *testing.T) {
	err := sandbox.Trial(context.Background(), localuser.New(socket(t), release))
	if err == nil {
		t.Error("a box was built")
	}
	t.Log(err)
}
