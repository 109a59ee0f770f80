package native_test

import (
	"os/exec"
	"testing"

	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// TestLetGo: a command that takes the first process for its tracer goes on where it
// stops, and so does an orphan inside.
func TestLetGo(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const traced = "import ctypes, os, signal, time\n" +
		"def trace(): print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), os.getppid(), flush=True)\n"
	for name, script := range map[string]string{
		"by a signal": "trace(); os.kill(os.getpid(), signal.SIGWINCH); print('went on', flush=True); os._exit(7)",
		"by execve":   "trace(); os.execvp('sh', ['sh', '-c', 'echo went on; exit 7'])",
		"an orphan": "r, w = os.pipe()\n" +
			"if os.fork() == 0:\n" +
			"  if os.fork() > 0: os._exit(0)\n" +
			"  while os.getppid() != 1: time.sleep(0.01)\n" +
			"  trace(); os.kill(os.getpid(), signal.SIGWINCH); os.write(w, b'went on'); os._exit(0)\n" +
			"os.wait(); print(os.read(r, 9).decode(), flush=True); os._exit(7)",
	} {
		h := sandboxtest.New(t, native.New("test"))
		out := h.Run(t, sandboxtest.Options{}, "python3", "-c", traced+script)
		if out.Err != nil || out.Stdout != "0 1\nwent on\n" || out.Status.ExitCode() != 7 {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
