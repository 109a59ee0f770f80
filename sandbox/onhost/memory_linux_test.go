package onhost_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/onhost"
)

func scoreNow(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEndedFirst: while anything begins, what is started is ended sooner; then this process has its own score again,
// in whatever order they are over.
func TestEndedFirst(t *testing.T) {
	own, sooner := scoreNow(t), onhost.Sooner()
	if own == sooner {
		t.Skip("there is no higher score than this process has")
	}
	want := func(when string, want int) {
		t.Helper()
		if n := scoreNow(t); n != want {
			t.Errorf("%s: the score is %d, and not %d", when, n, want)
		}
	}
	after := onhost.EndedFirst()
	want("one begins (the control)", sooner)
	after()
	want("one is over (the control)", own)

	first := onhost.EndedFirst()
	second := onhost.EndedFirst()
	want("two begin", sooner)
	first()
	want("the first of them is over", sooner)
	second()
	first()
	want("both are over", own)
}

// TestEndedFirstAgain: a process that hides its memory since it began a box gives what it starts later that score too.
func TestEndedFirstAgain(t *testing.T) {
	own, sooner := scoreNow(t), onhost.Sooner()
	onhost.EndedFirst()()
	runtime.LockOSThread() // and it ends with this test
	if os.Geteuid() == 0 { // root may open all: here it may not either
		if _, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	} else if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0); err == nil {
		f.Close()
		t.Fatal("the control: the file opens")
	}
	after := onhost.EndedFirst()
	if n := scoreNow(t); n != sooner {
		t.Errorf("the score is %d, and not %d", n, sooner)
	}
	after()
	if n := scoreNow(t); n != own {
		t.Errorf("the score is %d, and was %d", n, own)
	}
}
