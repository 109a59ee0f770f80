package lsm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
)

// TestMain is three things: the tests, the first process of the guest that runs them with
// a kernel of its own, and what an attempt in there runs.
func TestMain(m *testing.M) {
	if name := os.Getenv("CLOISTER_ATTEMPT"); name != "" {
		os.Exit(attempt(name))
	}
	if os.Getenv("CLOISTER_GUEST") == "" {
		os.Exit(m.Run())
	}
	if err := setUpGuest(); err != nil {
		fmt.Println("@@ set up the guest:", err)
	} else {
		fmt.Printf("@@ ended %d\n", runGuest(m))
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// loaded are the programs, in the guest.
var loaded *lsm.Kernel

// runGuest holds the programs while the tests run.
func runGuest(m *testing.M) int {
	switch os.Getenv("CLOISTER_GUEST") {
	case "cost":
		if err := measureCosts(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	case "weak":
		return openWeak()
	}
	got := withoutTypes()
	fmt.Printf("@@ weak\tno types (BTF)\t%s\n", got)
	if got == "" || strings.HasPrefix(got, "broken") {
		return 1
	}
	began := time.Now()
	k, err := lsm.Open()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("@@ loaded\t%d programs\t%v\n", k.Programs(), time.Since(began).Round(time.Millisecond))
	loaded = k
	code := m.Run()
	if err := k.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	if left, err := filepath.Glob(lsm.Pins + "/*"); err != nil || len(left) > 0 {
		fmt.Println("left behind:", left, err)
		return 1
	}
	return code
}

// inGuest skips what needs the guest's kernel.
func inGuest(t *testing.T) {
	if os.Getenv("CLOISTER_GUEST") == "" {
		t.Skip("runs in a guest, which TestGuest starts: script/test lsm")
	}
}

func setUpGuest() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"cgroup2", "/sys/fs/cgroup"}, {"securityfs", "/sys/kernel/security"},
		{"tmpfs", "/tmp"}, {"tmpfs", "/t"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	modules, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	for _, name := range modules {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil {
			return fmt.Errorf("insert %s: %w", name, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 30_000, Max: 30_000}); err != nil {
		return err
	}
	return os.Mkdir(group, 0o755)
}

const group = "/sys/fs/cgroup/s"

func begin(t *testing.T) *lsm.Session {
	t.Helper()
	inGuest(t)
	s, err := loaded.Begin(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tree makes the files that the attempts are about.
func tree(t *testing.T) {
	t.Helper()
	_ = unix.Unmount("/t/mnt", unix.MNT_DETACH)
	_ = unix.Unmount("/layers", unix.MNT_DETACH)
	list, err := os.ReadDir("/t")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if err := os.RemoveAll("/t/" + e.Name()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"secret/deep/er", "kept/dir", "open/dir", "mnt", "bin", "above/secret"} {
		if err := os.MkdirAll("/t/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{
		"bin/true": "/bin/true", "bin/busybox": "/bin/busybox", "bin/other": "/bin/busybox",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/t/"+name, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"secret/key", "secret/deep/er/key", "kept/file", "kept/dir/file", "open/file", "open/dir/file", "above/secret/key", "single"} {
		if err := os.WriteFile("/t/"+name, []byte("the content\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/t/open/script", []byte("#!/t/bin/busybox sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/t/bin/script", []byte("#!/bin/busybox sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A child is a process that makes an attempt.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts an attempt in the session's group, or in the guest's own.
func start(t *testing.T, name string, inside bool, files ...*os.File) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.Background(), self)
	c.Env = []string{"CLOISTER_ATTEMPT=" + name, "PATH=/bin"}
	c.Dir, c.Stderr, c.ExtraFiles = "/", os.Stderr, files
	if inside {
		dir, err := os.Open(group)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return &child{cmd: c, in: in, out: bufio.NewReader(out)}
}

// result is how the attempt ended: "through", or the error.
func (c *child) result(meanwhile func(pid int) error) string {
	defer func() {
		_ = c.cmd.Process.Kill() // it may wait for a word that does not come
		_ = c.cmd.Wait()
	}()
	for {
		line, err := c.out.ReadString('\n')
		line = strings.TrimSpace(line)
		switch {
		case err != nil:
			return "broken: " + err.Error()
		case line != "ready":
			return line
		}
		if meanwhile != nil {
			if err := meanwhile(c.cmd.Process.Pid); err != nil {
				return "broken: " + err.Error()
			}
		}
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			return "broken: " + err.Error()
		}
	}
}

// attempt runs in the child and tells how it went.
func attempt(name string) int {
	try, ok := attempts[name]
	if !ok {
		fmt.Println("broken: no attempt", name)
		return 1
	}
	err := try()
	var errno unix.Errno
	switch {
	case err == nil:
		fmt.Println("through")
	case errors.As(err, &errno):
		fmt.Printf("%s (%v)\n", unix.ErrnoName(errno), err)
	default:
		fmt.Println("broken:", err)
	}
	return 0
}

// ready lets the parent act.
func ready() error {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}
