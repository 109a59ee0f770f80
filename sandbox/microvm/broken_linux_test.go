package microvm_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox/sandboxtest"
)

// obey makes of a guest's first process one that serves the payload: each script that it finds runs
// with every privilege of the guest, behind no wall of the guest's.
func obey() {
	const script, said = "/tmp/obey", "/tmp/obeyed"
	for ; ; time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // in the guest, for as long as it lives
		if os.Rename(script, script+".sh") != nil {
			continue
		}
		f, err := os.OpenFile(said, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			continue
		}
		_, _ = syscall.ForkExec("/bin/sh", []string{"sh", script + ".sh"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, Files: []uintptr{f.Fd(), f.Fd(), f.Fd()},
		})
		f.Close()
	}
}

// asRoot runs commands as the guest's root and gives those that came off, one a line, after the
// user's number and capabilities.
func asRoot(t *testing.T, h *sandboxtest.Harness, m *machine, commands ...string) string {
	t.Helper()
	var script strings.Builder
	script.WriteString("cd '" + h.Project + "'\nid -u; grep CapEff /proc/self/status\n")
	for _, c := range commands {
		quoted := "'" + strings.ReplaceAll(c, "'", `'\''`) + "'"
		script.WriteString("timeout -k 1 15 sh -c " + quoted + " >/dev/null 2>&1 </dev/null; s=$?; [ $s != 0 ] || echo did " + quoted + "\n" +
			"[ $s != 124 ] && [ $s != 137 ] || echo hung " + quoted + "\n")
	}
	script.WriteString("echo over\n")
	h.Write(t, "obey", script.String())
	if text, code := m.sh(t, "rm -f /tmp/obeyed; cp obey /tmp/obey.new && mv /tmp/obey.new /tmp/obey"); code != 0 {
		t.Fatal(text)
	}
	text, _ := m.sh(t, "rm -f obey; n=0; until grep -q ^over /tmp/obeyed || [ $n = 150 ]; do sleep 2; n=$((n+1)); done 2>/dev/null; cat /tmp/obeyed")
	return text
}

// rooted are what root of the guest tries past the guest's own walls.
func rooted(h *sandboxtest.Harness) (may, mayNot []string) {
	return []string{
			"mount -o remount,rw,suid,dev /", "mknod /tmp/null c 1 3", "cat file", "echo guest >/proc/sys/kernel/hostname",
		}, []string{
			"echo x >.envrc", "rm -f .envrc", "mv .envrc away", "ln .envrc linked", "echo x >./.git/../.envrc", "mkdir -p .git/hooks",
			"mv .git other", "mount -o remount,rw,bind .envrc && echo x >.envrc", "umount .envrc", "echo x >/usr/x", "echo x >/etc/x",
			"echo x >>/usr/bin/env", "cat '" + h.Home + "/.ssh/id_ed25519'",
			"cat /kernel", "cat /state/c", "cat /view/etc/passwd", "cat /etc/shadow",
			"ls -A '" + h.Home + "' | grep ssh", "chmod 4755 file", "chmod 2755 file", "mkdir -m 2777 folder && test -g folder",
			"mknod device c 1 1", "mknod disk b 8 0", `python3 -c 'import os; os.setxattr("file", "user.x", b"y")'`,
			`python3 -c 'import os; os.setxattr("file", "security.capability", b"x"*20)'`,
			"mkdir /tmp/host && mount -t virtiofs host /tmp/host", "ls /sys/class/net | grep -v lo", "ls /dev/vd? /dev/sd? /dev/nvme*",
			"cat </dev/tcp/127.0.0.1/2", "head -c1 /dev/vhost-vsock",
		}
}

// broken has a guest's first process serve the payload: what it writes past the guest's own walls
// ends at those of the host.
func broken(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
	may, mayNot := rooted(h)
	text := asRoot(t, h, m, append(may, mayNot...)...)
	t.Log(text)
	// The controls: it is all of the guest's root.
	if !strings.HasPrefix(text, "0\nCapEff:\t000001ff") {
		t.Errorf("it is not the guest's root: %s", text)
	}
	for _, c := range may {
		if !strings.Contains(text, "did "+c+"\n") {
			t.Errorf("a control failed: %s", c)
		}
	}
	for _, c := range mayNot {
		if strings.Contains(text, "did "+c+"\n") {
			t.Errorf("succeeded: %s", c)
		}
	}
	if text, err := os.ReadFile(filepath.Join(h.Project, ".envrc")); err != nil || string(text) != "protected\n" {
		t.Errorf("on the host: %q, %v", text, err)
	}
	for _, what := range odd(t, h) {
		t.Error(what)
	}
}

// odd are files of the project that no payload may have made there.
func odd(t *testing.T, h *sandboxtest.Harness) (found []string) {
	t.Helper()
	own := os.Geteuid()
	if err := filepath.WalkDir(h.Project, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		if fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice) != 0 || int(st.Uid) != own {
			found = append(found, name+" is "+fi.Mode().String())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return found
}
