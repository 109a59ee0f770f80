package microvm_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/microvm"
	"cloister/sandbox/microvm/engine"
	"cloister/sandbox/microvm/guest"
	"cloister/sandbox/microvm/kernel"
	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/sandboxtest"
)

// TestMain is four programs: the tests, the monitor of a machine, its guest's first process, which here
// does what a payload wants, and the guest's engine.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case engine.Name:
		os.Exit(engine.Main(os.Args[1:], os.Environ()))
	case guest.Name:
		go obey()
		os.Exit(guest.Main(context.Background()))
	case monitor.Name:
		os.Exit(monitor.Main(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// accepting is the driver with the word that a person would write.
type accepting struct {
	*microvm.Driver
	dir string // of its kernel
}

func (d accepting) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	s.Accepted = append(slices.Clone(s.Accepted), microvm.Residue)
	return d.Driver.Start(ctx, s, w)
}

// built gives drivers with the kernel of the folder that CLOISTER_MICROVM_KERNEL names, an
// unpacked package of Debian's.
func built(t *testing.T) func() sandbox.Driver {
	t.Helper()
	from := os.Getenv("CLOISTER_MICROVM_KERNEL")
	if from == "" {
		t.Skip("CLOISTER_MICROVM_KERNEL names no kernel: script/test microvm")
	}
	images, err := filepath.Glob(from + "/boot/vmlinuz-*")
	if err != nil || len(images) != 1 {
		t.Fatalf("%s has the kernels %q, %v", from, images, err)
	}
	modules, err := filepath.Glob(from + "/lib/modules/*")
	if err != nil || len(modules) != 1 {
		t.Fatalf("%s has the modules %q, %v", from, modules, err)
	}
	dir := filepath.Join(t.TempDir(), "kernel")
	if _, err := kernel.Install(dir, images[0], modules[0], unxz); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func() sandbox.Driver {
		return accepting{microvm.New(microvm.Options{Instance: filepath.Join(dir, "instance"), Kernel: dir, Program: self,
			Path: filepath.SplitList(os.Getenv("PATH"))}), dir}
	}
}

// ready gives drivers whose machines begin from templates, of which setup has made the first.
func ready(t *testing.T) func() sandbox.Driver {
	t.Helper()
	driver := built(t)
	began := time.Now()
	tried, err := driver().(accepting).Try(t.Context())
	if err := errors.Join(tried.Template, err); err != nil {
		t.Fatal(err)
	}
	t.Logf("a template, and a machine from it, in %v", time.Since(began).Round(time.Millisecond))
	return driver
}

func unxz(in io.Reader) ([]byte, error) {
	c := exec.CommandContext(context.Background(), "xz", "-dc")
	c.Stdin = in
	return c.Output()
}

// TestMachine starts a machine once, and looks from inside and from outside.
func TestMachine(t *testing.T) {
	outside(t)
	h := sandboxtest.New(t, ready(t)())
	h.Write(t, "file", "content\n")
	h.Write(t, ".envrc", "protected\n")
	g := &gate{}
	began := time.Now()
	var booted time.Duration
	ready := filepath.Join(h.Project, "ready")
	var spec sandbox.Spec
	out := h.Run(t, sandboxtest.Options{
		Stdin: "input", Arm: g.arm(t), Change: func(s *sandbox.Spec) { spec = *s },
		During: func(b sandbox.Box) {
			booted = time.Since(began)
			await(t, ready)
			m := &machine{driver: h.Driver, box: b, spec: spec}
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, h, m, g) })
			}
			if err := b.Signal(syscall.SIGUSR1); err != nil {
				t.Error(err)
			}
		},
	}, "sh", "-c", "cat; trap 'echo ended; echo err >&2; exit 7' USR1; touch ready; while :; do sleep 0.05; done")
	if out.Err != nil || out.Status.ExitCode() != 7 || out.Stdout != "inputended\n" || out.Stderr != "err\n" {
		t.Errorf("%+v", out)
	}
	t.Logf("started in %v, all in %v", booted.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// outside has the test's project lie in no folder that may be written anyway, as /tmp may.
func outside(t *testing.T) {
	t.Helper()
	if os.Getenv("CLOISTER_MICROVM_KERNEL") == "" {
		return // it is about to be skipped
	}
	dir, err := os.MkdirTemp("/srv", "cloister-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it would be seen in /srv
	t.Setenv("TMPDIR", dir)
}

// machine is the running one.
type machine struct {
	driver sandbox.Driver
	box    sandbox.Box
	spec   sandbox.Spec
}

// sh runs a script in the machine and gives all that it writes, and its status.
func (m *machine) sh(t *testing.T, script string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := m.spec
	s.ID, s.Argv = "more-"+rand.Text(), []string{"sh", "-c", script}
	b, err := m.driver.Exec(t.Context(), m.box.Handle(), s, sandbox.Wiring{Stdin: null, Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	st, werr := b.Wait()
	if err := errors.Join(err, werr); err != nil {
		t.Fatal(err)
	}
	return string(text), st.ExitCode()
}

// cases are what is looked at in one machine.
var cases = []struct {
	name string
	run  func(t *testing.T, h *sandboxtest.Harness, m *machine, g *gate)
}{
	{"a kernel of its own", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		own, err := os.ReadFile("/proc/sys/kernel/osrelease")
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := m.sh(t, "uname -r"); text == string(own) || !strings.HasPrefix(text, "6.") {
			t.Errorf("the kernel inside is %q, the host's %q", text, own)
		}
	}},
	{"status", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		for script, want := range map[string]int{"exit 0": 0, "exit 255": 255, "kill -KILL $$": 137} {
			if _, code := m.sh(t, script); code != want {
				t.Errorf("%s: %d, want %d", script, code, want)
			}
		}
	}},
	{"the project is live", func(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
		if text, code := m.sh(t, "cat file; echo made >made && mkdir dir && mv made dir/moved"); text != "content\n" || code != 0 {
			t.Errorf("%q, %d", text, code)
		}
		text, err := os.ReadFile(filepath.Join(h.Project, "dir/moved"))
		if err != nil || string(text) != "made\n" {
			t.Errorf("on the host: %q, %v", text, err)
		}
		h.Write(t, "file", "other\n")
		if text, _ := m.sh(t, "cat file"); text != "other\n" {
			t.Errorf("what the host wrote is %q inside", text)
		}
	}},
	{"locks of files", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		text, code := m.sh(t, `python3 -c '
import fcntl, threading
a, b = open("file"), open("file")
fcntl.flock(a, fcntl.LOCK_EX)
try:
    fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("held")
threading.Timer(0.3, a.close).start()
fcntl.flock(b, fcntl.LOCK_EX)
print("waited")' 2>&1`)
		if text != "held\nwaited\n" || code != 0 {
			t.Errorf("%q, %d", text, code)
		}
	}},
	{"protected paths", func(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
		tries := "for c in 'echo x >.envrc' 'rm -f .envrc' 'mv .envrc y' 'echo x >x && mv x .envrc' 'mkdir .git/hooks' 'ln .envrc l' " +
			"'rm -rf .git && mkdir .git'; do sh -c \"$c\" 2>/dev/null && echo \"$c\"; done; true"
		if text, _ := m.sh(t, tries); text != "" {
			t.Errorf("succeeded: %s", text)
		}
		text, err := os.ReadFile(filepath.Join(h.Project, ".envrc"))
		if err != nil || string(text) != "protected\n" {
			t.Errorf("on the host: %q, %v", text, err)
		}
	}},
	{"the host is invisible", func(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
		text, _ := m.sh(t, "ls '"+h.Home+"/.ssh' /root /kernel /view /state /bundle 2>/dev/null; ls -d /var/lib/dpkg /etc/shadow 2>/dev/null; true")
		if text != "" {
			t.Errorf("seen: %s", text)
		}
	}},
	{"privileges", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		text, _ := m.sh(t, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t\\n'; umask; ulimit -c")
		const none = "0000000000000000"
		want := "CapInh:" + none + "CapPrm:" + none + "CapEff:" + none + "CapBnd:" + none + "CapAmb:" + none + "NoNewPrivs:1Seccomp:20022\n0\n"
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
		text, _ = m.sh(t, "for c in 'unshare -U true' 'mount -t tmpfs x /tmp' 'umount /usr' 'chroot / true' 'mknod /tmp/n c 1 1' dmesg "+
			"'hostname evil' 'ip link set lo down' 'touch /usr/x' 'touch /x' true; do sh -c \"$c\" >/dev/null 2>&1 && echo \"$c\"; done; true")
		if text != "true\n" { // the control
			t.Errorf("succeeded: %s", text)
		}
	}},
	{"no network device", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		if text, _ := m.sh(t, "grep -c : /proc/net/dev"); text != "1\n" {
			t.Errorf("there are %s devices", text)
		}
	}},
	{"a connection arrives with its destination", func(t *testing.T, _ *sandboxtest.Harness, m *machine, g *gate) {
		if text, _ := m.sh(t, `bash -c 'exec 3<>/dev/tcp/198.18.7.7/4242; echo hello >&3; cat <&3'`); text != "198.18.7.7:4242 hello\n" {
			t.Errorf("%q", text)
		}
		if text, code := m.sh(t, `bash -c 'exec 3<>/dev/tcp/198.18.7.7/9; cat <&3' 2>&1`); code == 0 || !strings.Contains(text, "reset") {
			t.Errorf("a reset is %q, %d", text, code)
		}
		if text, code := m.sh(t, `bash -c 'exec 3<>/dev/tcp/127.0.0.1/2' 2>&1`); code == 0 {
			t.Errorf("the monitor's own port is reached: %q", text)
		}
	}},
	{"a question is answered", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		if text, _ := m.sh(t, "getent hosts api.example.test | cut -d' ' -f1"); text != "198.18.0.9\n" {
			t.Errorf("%q", text)
		}
	}},
	{"other datagrams are refused at once", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		if text, code := m.sh(t, `bash -c 'exec 3<>/dev/udp/198.18.7.7/443; echo x >&3; echo x >&3' 2>&1`); code == 0 {
			t.Errorf("sent: %q", text)
		}
	}},
	{"a port inside", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		if _, err := m.box.(sandbox.Dialer).Dial(t.Context(), 4001); err == nil {
			t.Error("a port is reached on which nothing listens")
		}
		done := make(chan string, 1)
		go func() {
			text, _ := m.sh(t, `python3 -c 'import socket
l = socket.create_server(("127.0.0.1", 4000)); open("listens", "w").close()
c, _ = l.accept(); print(c.recv(9).decode()); c.sendall(b"back")'`)
			done <- text
		}()
		await(t, filepath.Join(string(m.spec.Dir), "listens"))
		c, err := m.box.(sandbox.Dialer).Dial(t.Context(), 4000)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "forth"); err != nil {
			t.Error(err)
		}
		text, err := io.ReadAll(c)
		if there := <-done; string(text) != "back" || there != "forth\n" || err != nil {
			t.Errorf("%q, %q, %v", text, there, err)
		}
	}},
	{"missing command", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		s := m.spec
		s.ID, s.Argv = "more-"+rand.Text(), []string{"no-such-command"}
		_, err = m.driver.Exec(t.Context(), m.box.Handle(), s, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
		if e, ok := errors.AsType[*sandbox.ExecError](err); !ok || !e.NotFound {
			t.Errorf("%v", err)
		}
	}},
	{"stopped whole", func(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
		text, _ := m.sh(t, "cat /proc/1/environ /proc/1/mem 2>/dev/null; ls /proc/1/fd 2>/dev/null; true")
		if text != "" {
			t.Errorf("the first process shows %q", text)
		}
	}},
	{"what QEMU and the server may", walls},
	{"many connections", manyConnections},
	{"a guest whose root floods its console", flooded},
	{"a guest that makes files with long names", manyFiles},
	{"a guest whose root serves the payload", broken},
}
