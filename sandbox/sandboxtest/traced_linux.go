package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// tracer traces a child of its own, then the first process, then another command of
// the cloister, and says what the kernel answered.
const tracer = `
import ctypes, errno, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
def seize(pid):
    if libc.ptrace(0x4206, pid, 0, 0) != 0:
        return errno.errorcode[ctypes.get_errno()]
    return "traced"
def look(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            f.read(1)
        return "read"
    except OSError as e:
        return errno.errorcode[e.errno]
child = os.fork()
if child == 0:
    time.sleep(120)
    os._exit(0)
print("child", seize(child), look(child, "environ"))
print("first", seize(1), look(1, "environ"), look(1, "mem"))
open("ready", "w").close()
while not os.path.exists("other"):
    time.sleep(0.01)
other = int(open("other").read())
print("other", seize(other), look(other, "environ"), look(other, "mem"))
`

// traced: a debugger works among the command's own processes, and neither the first
// process nor another command of the cloister is among them.
func traced(t *testing.T, h *Harness) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	out := h.Run(t, Options{
		During: func(b sandbox.Box) {
			h.awaitFile(t, b, "ready")
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer null.Close()
			spec := h.last
			spec.Argv = []string{"sh", "-c", "echo $$ > other.new && mv other.new other && exec sleep 120"}
			e, err := h.Driver.Exec(t.Context(), b.Handle(), spec, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
			if err != nil {
				t.Error(err)
				_ = b.Close()
				return
			}
			_, _ = b.Wait()
			_, _ = e.Wait()
		},
	}, "python3", "-c", tracer)
	answers := map[string][]string{}
	for line := range strings.Lines(out.Stdout) {
		words := strings.Fields(line)
		answers[words[0]] = words[1:]
	}
	if got := strings.Join(answers["child"], " "); got != "traced read" {
		t.Errorf("a child of its own: %q", got)
	}
	for name, want := range map[string]int{"first": 3, "other": 3} {
		got := answers[name]
		for i, answer := range got {
			hidden := i > 0 && answer == "ENOENT" // it is there, as the first answer tells, and not in /proc
			if answer != "EPERM" && answer != "EACCES" && !hidden {
				t.Errorf("%s: %q", name, got)
			}
		}
		if len(got) != want {
			t.Errorf("%s: %d answers of %d: %+v", name, len(got), want, out)
		}
	}
}

// stops has the parent, which is the first process, trace the command, which stops by
// a signal then. Whether it is let go or not, a child ends it.
const stops = `
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
print("traced", libc.ptrace(0, 0, 0, 0), flush=True)
if os.fork() == 0:
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
os.kill(os.getpid(), signal.SIGWINCH)
time.sleep(120)
`

// stopped: a command that the first process traces has not ended where it stops.
func stopped(t *testing.T, h *Harness) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	out := h.Run(t, Options{}, "python3", "-c", stops)
	if out.Err != nil || out.Stdout != "traced 0\n" || out.Status.ExitCode() != 128+int(unix.SIGKILL) {
		t.Errorf("the end of a command that stopped before: %+v", out)
	}
}

// named: the standard descriptors can be opened by their names, in the direction that
// they were handed over for, and memory files are taken as what they are.
func named(t *testing.T, h *Harness) {
	out := h.Run(t, Options{Stdin: "in\n"}, "sh", "-c", "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr")
	if out.Err != nil || out.Stdout != "in\nout\n" || out.Stderr != "err\n" {
		t.Errorf("by name: %+v", out)
	}
	if os.Geteuid() == 0 && !h.differ(PipesBothWays) { // an ordinary user's command owns the user's pipes
		const other = "(dd bs=1 count=1 of=/dev/null </dev/stdout) 2>/dev/null && echo read; " +
			"(echo x >/dev/stdin) 2>/dev/null && echo written; true"
		out = h.Run(t, Options{}, "sh", "-c", other)
		if out.Err != nil || out.Stdout != "" {
			t.Errorf("a pipe is open in both directions: %+v", out)
		}
	}
	h.Run(t, Options{
		During: func(b sandbox.Box) {
			defer b.Close()
			in, into := memory(t), memory(t)
			defer in.Close()
			defer into.Close()
			if _, err := in.WriteAt([]byte("from memory\n"), 0); err != nil {
				t.Error(err)
				return
			}
			spec := h.last
			spec.ID, spec.Argv = spec.ID+"m", []string{"sh", "-c", "cat; cat /dev/stdin; echo again >> /dev/stdout"}
			m, err := h.Driver.Start(t.Context(), spec, sandbox.Wiring{Arm: shut, Stdin: in, Stdout: into, Stderr: into})
			if err != nil {
				t.Errorf("memory files: %v", err)
				return
			}
			status, err := m.Wait()
			text := make([]byte, 100)
			n, _ := into.ReadAt(text, 0)
			want := "from memory\nfrom memory\nagain\n"
			if h.differ(InputOnce) {
				want = "from memory\nagain\n"
			}
			if err != nil || status.ExitCode() != 0 || string(text[:n]) != want {
				t.Errorf("memory files: %+v, %v, %q", status, err, text[:n])
			}
		},
	}, "sleep", "120")
}

// otherMachine: nothing of /proc says which machine this is, nor what its programs lock.
func otherMachine(t *testing.T, h *Harness) {
	t.Helper()
	if h.copies {
		return // what a node's runtime shows of the node's kernel is its own matter
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The kernel lists no lock of a process that has no number inside; one of an open file has no process.
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	const header = "major minor  #blocks  name"
	files := []string{"/proc/sys/kernel/random/boot_id", "/proc/cmdline", "/proc/partitions", "/proc/swaps", "/proc/locks"}
	seen := h.sh(t, "cat "+strings.Join(files, " ")+" 2>/dev/null; true").Stdout
	for _, file := range files {
		lines := 0
		for line := range strings.Lines(read(t, file)) {
			if line = strings.TrimSpace(line); line == "" || line == header || strings.HasPrefix(line, "Filename") {
				continue
			}
			lines++
			if strings.Contains(seen, line) {
				t.Errorf("%s shows the host: %q", file, line)
			}
		}
		if lines == 0 && (file == "/proc/locks" || file == "/proc/cmdline") {
			t.Errorf("%s is empty on the host: nothing is proven", file)
		}
	}
}

func memory(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("sandboxtest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "memory")
}
