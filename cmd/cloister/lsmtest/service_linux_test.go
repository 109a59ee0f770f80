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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm/service"
)

const (
	user      = 1000
	delegated = "/sys/fs/cgroup/user"
	home      = "/home/u"
)

// peer has root's service judge a control group, until its input ends.
func peer(group string) error {
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	c, err := service.Dial()
	if err != nil {
		return err
	}
	if err := c.Attach(dir); err != nil {
		return err
	}
	fmt.Println("attached")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Close()
}

// as is a program of a user, in a control group.
func as(t *testing.T, uid uint32, group string, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(context.Background(), words[0], words[1:]...)
	c.Dir = "/work"
	c.Env = []string{"HOME=" + home, "PATH=/bin", "USER=u", "XDG_RUNTIME_DIR=" + home + "/run"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if group != "" {
		dir, err := os.Open(group)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	return c
}

// delegate gives a control group to the user, as a service manager does.
func delegate(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"} {
			if err := os.Chown(dir+name, user, user); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// serving is root's service, until end signals it.
func serving(t *testing.T) (end func(os.Signal) error) {
	t.Helper()
	c := exec.CommandContext(context.Background(), "/bin/cloister", "lsm", "serve")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	if line, err := lines.ReadString('\n'); !strings.Contains(line, "listening at") {
		t.Fatalf("the service said %q, %v", line, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, _ := io.ReadAll(lines)
		fmt.Printf("the service: %s\n", text)
	}()
	var once sync.Once
	end = func(sig os.Signal) (err error) {
		once.Do(func() {
			_ = c.Process.Signal(sig)
			<-done
			err = c.Wait()
		})
		return err
	}
	t.Cleanup(func() { _ = end(unix.SIGTERM) })
	return end
}

// A user's cloister is judged by the kernel as root's is, by root's service.
func TestProductServes(t *testing.T) {
	inGuest(t)
	for _, dir := range []string{home, home + "/run", "/work", "/work/tools"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, user, user)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.WalkDir(os.DirFS("/work"), ".", func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(filepath.Join("/work", name), user, user))
	}); err != nil {
		t.Fatal(err)
	}
	delegate(t, delegated, delegated+"/shim", delegated+"/other")
	asUser := func(words ...string) (string, error) {
		out, err := as(t, user, delegated+"/shim", append([]string{"/bin/cloister"}, words...)...).CombinedOutput()
		return string(out), err
	}
	defer func() { _, _ = asUser("guardian", "stop") }()
	if out, err := asUser("lsm", "status"); err == nil || !strings.Contains(out, "sudo cloister lsm install") {
		t.Errorf("status without the service: %v\n%s", err, out)
	}
	end := serving(t)
	if out, err := asUser("lsm", "status"); err != nil || !strings.Contains(out, "by object") {
		t.Errorf("status: %v\n%s", err, out)
	}
	if out, _ := asUser("doctor"); !strings.Contains(out, "root's service attaches the programs") {
		t.Errorf("doctor:\n%s", out)
	}
	run := []string{"run", "--isolation", "native", "--no-network"}
	out, _ := asUser(slices.Concat(run, []string{"--", "/bin/busybox", "sh", "-c", tries})...)
	if !strings.Contains(out, "tool ran") || strings.Count(out, "secret text") != 2 {
		t.Errorf("the control:\n%s", out)
	}
	out, _ = asUser(slices.Concat(run, []string{"--policy", "policy.cedar", "--", "/bin/busybox", "sh", "-c", tries})...)
	if strings.Contains(out, "tool ran") || strings.Contains(out, "secret text") || !strings.Contains(out, "plain text") {
		t.Errorf("with the statements:\n%s", out)
	}
	record, _ := asUser("audit", "export")
	for _, want := range []string{`"kind":"file.denied"`, `"resource":"/work/tools/busybox"`, `"rule":"no-tools"`, `"rule":"no-secret"`,
		"the kernel refused it to", `"kind":"exec"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s", want)
		}
	}
	// What joins is judged too, and a session whose service is gone ends.
	c := as(t, user, delegated+"/shim", slices.Concat([]string{"/bin/cloister"}, run,
		[]string{"--name", "live", "--policy", "policy.cedar", "--", "/bin/busybox", "sh", "-c", "echo up; sleep 100000"})...)
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
	out, _ = asUser("exec", "live", "--", "/bin/busybox", "sh", "-c", "echo joined; "+tries)
	if !strings.Contains(out, "joined") || strings.Contains(out, "tool ran") || strings.Contains(out, "secret text") || !strings.Contains(out, "plain text") {
		t.Errorf("a command that joined:\n%s", out)
	}
	_ = end(unix.SIGKILL)
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "judge of files is gone") {
		t.Errorf("a session whose service is gone went on to its end: %v\n%s", err, said.String())
	}
	serving(t) // and others begin with the next one
	out, _ = asUser(slices.Concat(run, []string{"--policy", "policy.cedar", "--", "/bin/busybox", "sh", "-c", tries})...)
	if strings.Contains(out, "tool ran") || !strings.Contains(out, "plain text") {
		t.Errorf("with another service:\n%s", out)
	}
}

// No peer has a group judged that is not its own, and in its own no other user's tasks are.
func TestProductServesNoOther(t *testing.T) {
	inGuest(t)
	delegate(t, delegated, delegated+"/other", delegated+"/mine")
	if err := os.Chown("/work", user, user); err != nil {
		t.Fatal(err)
	}
	end := serving(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attach := func(uid uint32, group string) *exec.Cmd {
		c := as(t, uid, "", self)
		c.Env = append(c.Env, "CLOISTER_LSM_PEER="+group)
		return c
	}
	for _, c := range []struct {
		uid   uint32
		group string
		says  string
	}{
		{1001, delegated + "/other", "belongs to uid 1000"},
		{user, "/sys/fs/cgroup", "belongs to uid 0"},
		{user, "/work", "is none below"},
		{user, "/dev/null", "that is no control group"},
		{0, delegated + "/other", "belongs to uid 1000"},
		{0, "/sys/fs/cgroup", "root loads the programs itself"},
	} {
		if out, _ := attach(c.uid, c.group).CombinedOutput(); !strings.Contains(string(out), c.says) {
			t.Errorf("uid %d, %s: it said %q, want %q", c.uid, c.group, out, c.says)
		}
	}
	in := func(uid uint32) string {
		out, err := as(t, uid, delegated+"/mine", "/bin/busybox", "cat", "/work/plain").CombinedOutput()
		return fmt.Sprint(string(out), err)
	}
	if got := in(user); !strings.Contains(got, "plain text") {
		t.Fatalf("the control: %s", got)
	}
	mine := attach(user, delegated+"/mine")
	stdin, inErr := mine.StdinPipe()
	stdout, outErr := mine.StdoutPipe()
	if err := errors.Join(inErr, outErr, mine.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "attached\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	if got := in(user); strings.Contains(got, "plain text") {
		t.Errorf("the user's task was not judged: %s", got)
	}
	for _, uid := range []uint32{0, 1001} {
		if got := in(uid); !strings.Contains(got, "plain text") {
			t.Errorf("a task of uid %d was judged by another's rules: %s", uid, got)
		}
	}
	if out, _ := attach(user, delegated+"/mine").CombinedOutput(); !strings.Contains(string(out), "already") {
		t.Errorf("the same group again: %s", out)
	}
	if got := in(user); strings.Contains(got, "plain text") {
		t.Errorf("after another tried, the user's task was not judged: %s", got)
	}
	if err := errors.Join(stdin.Close(), mine.Wait()); err != nil {
		t.Error(err)
	}
	// The service ends a session when it notices that its peer is gone.
	tick, late := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for got := in(user); !strings.Contains(got, "plain text"); got = in(user) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after the session a new task is judged: %s", got)
		}
	}
	if err := end(unix.SIGTERM); err != nil {
		t.Errorf("the service ended: %v", err)
	}
	if left, err := filepath.Glob("/sys/fs/bpf/*"); err != nil || len(left) > 0 {
		t.Errorf("left in the kernel: %q, %v", left, err)
	}
}
