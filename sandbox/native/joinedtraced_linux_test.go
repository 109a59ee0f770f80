package native_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// A command that joined, and that one which it began traces, is waited for all the same: its tracer keeps its end from
// the process that began it.
func TestJoinedTracedIsWaitedFor(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip(err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	const script = "import ctypes, os, time\n" +
		"c, me = ctypes.CDLL(None), os.getpid()\n" +
		"c.prctl(0x59616d61, -1)\n" + // PR_SET_PTRACER, any
		"if os.fork() == 0:\n" +
		"  print(c.ptrace(0x4206, me, 0, 0), flush=True)\n" + // PTRACE_SEIZE
		"  time.sleep(1000)\n" +
		"time.sleep(1000)\n"
	h := sandboxtest.New(t, native.New("test"))
	var spec sandbox.Spec
	h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { spec = *s }, During: func(b sandbox.Box) {
		before := children(t)
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		spec.Argv = []string{python, "-c", script}
		e, err := h.Driver.Exec(t.Context(), b.Handle(), spec, sandbox.Wiring{Stdin: null, Stdout: w, Stderr: null})
		if err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 2)
		if _, err := r.Read(said); err != nil || string(said) != "0\n" {
			t.Fatalf("it traces: %q, %v", said, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		var more []int
		for range 6000 { // a minute
			more = slices.DeleteFunc(children(t), func(pid int) bool { return slices.Contains(before, pid) })
			if len(more) == 0 {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if len(more) > 0 {
			t.Errorf("%d are left to this process", len(more))
		}
		ended := make(chan error, 1)
		go func() { ended <- b.Close() }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the box does not end")
			for _, pid := range more {
				_, _ = unix.Wait4(pid, nil, 0, nil)
			}
			<-ended
		}
	}}, "sleep", "1000")
}
