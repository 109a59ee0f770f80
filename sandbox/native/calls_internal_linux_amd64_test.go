package native

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/seccomp"
)

// lastTried is the last number that TestEveryCall tries.
const lastTried = 600

const sysUprobe = 336 // arch/x86/entry/syscalls/syscall_64.tbl, Linux 6.18

// TestEveryCall makes every system call from inside, by each of the three ways
// into the kernel of this machine, and holds the answers to the table.
func TestEveryCall(t *testing.T) {
	h := sandboxtest.New(t, New("test"))
	program := filepath.Join(h.Project, "calls")
	build(t, program)
	inside := func(kind string, numbers []int) map[int]string {
		out := h.Run(t, sandboxtest.Options{}, append([]string{program, kind}, words(numbers)...)...)
		if out.Err != nil || out.Status.ExitCode() != 0 {
			t.Fatalf("%s: %v %+v %s", kind, out.Err, out.Status, out.Stderr)
		}
		return told(t, out.Stdout, len(numbers))
	}
	var all []int
	for nr := range lastTried + 1 {
		if nr != unix.SYS_SYNC { // it waits for every disk of the machine
			all = append(all, nr)
		}
	}

	var allowed []int
	for nr, got := range inside("x86-64", all) {
		switch want := refusal(uint32(nr)); {
		case want == 0:
			allowed = append(allowed, nr)
		case nr == sysUprobe && got == strconv.Itoa(-int(unix.ENXIO)):
			// Since 6.18 the kernel asks no filter about it; from anywhere but a probe
			// that root has set it only says no.
		case got != strconv.Itoa(-int(want)):
			t.Errorf("call %d: %s, want %s", nr, got, unix.ErrnoName(want))
		}
	}
	// What is allowed the kernel itself answers: as it does outside, but for
	// calls that ask for a capability.
	slices.Sort(allowed)
	outside, err := exec.CommandContext(t.Context(), program, append([]string{"x86-64"}, words(allowed)...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	in, out := inside("x86-64", allowed), told(t, string(outside), len(allowed))
	capable := []int{unix.SYS_SETGROUPS}
	for _, nr := range allowed {
		got := in[nr]
		if refused := got == "-1" || got == "-38" || got == "signal 31"; refused && got != out[nr] && !slices.Contains(capable, nr) {
			t.Errorf("call %d is in the table: %s inside, %s outside", nr, got, out[nr])
		}
	}

	for nr, got := range inside("x32", all) {
		if got != strconv.Itoa(-int(unix.ENOSYS)) {
			t.Errorf("x32 call %d: %s, want ENOSYS", nr, got)
		}
	}
	for nr, got := range inside("i386", all) {
		// A kernel without 32-bit calls knows the gate itself not: SIGSEGV.
		if got != fmt.Sprintf("signal %d", syscall.SIGSYS) && got != fmt.Sprintf("signal %d", syscall.SIGSEGV) {
			t.Errorf("i386 call %d: %s, want the end of the process", nr, got)
		}
	}
}

// refusal is what the table says of a call whose arguments are all -1: zero
// where it is allowed.
func refusal(nr uint32) unix.Errno {
	is := func(list []seccomp.Call) bool {
		return slices.ContainsFunc(list, func(c seccomp.Call) bool { return c.NR == nr })
	}
	switch {
	case is(seccomp.Absent) || nr > seccomp.Newest:
		return unix.ENOSYS
	case nr == unix.SYS_SOCKET:
		return unix.EAFNOSUPPORT
	case nr == unix.SYS_IOCTL || nr == unix.SYS_FCNTL || nr == unix.SYS_SETSOCKOPT || nr == unix.SYS_PRCTL || nr == unix.SYS_PERSONALITY:
		return 0 // a request that no list forbids
	case is(seccomp.Allowed), is(seccomp.Tracing):
		return 0
	}
	return unix.EPERM // also clone, unshare, seccomp and file modes with every bit set
}

func words(numbers []int) []string {
	var out []string
	for _, nr := range numbers {
		out = append(out, strconv.Itoa(nr))
	}
	return out
}

// told reads what testdata/calls.c writes.
func told(t *testing.T, text string, want int) map[int]string {
	t.Helper()
	out := map[int]string{}
	for line := range strings.Lines(text) {
		number, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		nr, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out[nr] = answer
	}
	if len(out) != want {
		t.Fatalf("%d answers to %d calls", len(out), want)
	}
	return out
}

func build(t *testing.T, program string) {
	t.Helper()
	gcc := needs.Program(t, "gcc", "gcc")
	text, err := exec.CommandContext(t.Context(), gcc, "-O1", "-o", program, "testdata/calls.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
