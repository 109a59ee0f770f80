package native_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// A command that joined is waited for by the process that began it, however it ends: nothing is left to the host's first
// process, which this test stands in for. Where that waits for no one, as a program in a container, the box itself could not
// end any more.
func TestJoinedIsWaitedFor(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	h := sandboxtest.New(t, native.New("test"))
	var spec sandbox.Spec
	h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { spec = *s }, During: func(b sandbox.Box) {
		defer b.Close()
		before := children(t)
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		join := func(argv ...string) (sandbox.Box, error) {
			spec.Argv = argv
			return h.Driver.Exec(t.Context(), b.Handle(), spec, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
		}
		for range 20 {
			_, err := join("/none")
			if refused, ok := errors.AsType[*sandbox.ExecError](err); !ok || !refused.NotFound {
				t.Fatalf("a command that is not there: %v", err)
			}
			e, err := join("sleep", "1000")
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if status, _ := e.Wait(); status.Signal != int(unix.SIGKILL) {
				t.Fatalf("a command that was ended: %+v", status)
			}
		}
		var more []int
		for range 500 { // of 10 ms: what has nothing above it any more is killed, and comes here
			more = slices.DeleteFunc(children(t), func(pid int) bool { return slices.Contains(before, pid) })
			if len(more) == 0 {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Errorf("%d are left to this process", len(more))
		for _, pid := range more { // or the box waits for them for ever
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}}, "sleep", "1000")
}

// children are those of this process, also where they have ended.
func children(t *testing.T) (out []int) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		text, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children") // it may have ended
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
	}
	return out
}
