package localuser_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/localuser"
	"cloister/sandbox/native"
)

// TestWithin: what a caller wants of memory and processors leads out of none of its control
// groups, whose bounds may be less.
func TestWithin(t *testing.T) {
	at := helper(t, localuser.Helper{Allowed: []int{caller}, First: payloads + 400, Count: 50})
	g, err := cgroup.New("test-cloister-within-"+strconv.Itoa(os.Getpid()), cgroup.Bounds{Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `read go; exec "$0" "$@"`, self, deniedName, strconv.Itoa(caller),
		"/proc/self/exe", "-test.run=^TestAsCallerWithin$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), socketOf+"="+at, "TMPDIR="+folder(t, caller))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	_, err = io.WriteString(in, "go\n")
	if err = errors.Join(err, cmd.Wait()); err != nil || !strings.Contains(said.String(), "--- PASS") {
		t.Errorf("%v\n%s", err, &said)
	}
}

func TestAsCallerWithin(t *testing.T) {
	socket(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	b, err := localuser.New(socket(t), release).Start(t.Context(), sandbox.Spec{ID: "within", Name: "within",
		Argv: []string{"sleep", "1000"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Limits: sandbox.Limits{Memory: 8 << 30},
		User: sandbox.User{ID: caller, Name: "agent", Home: "/tmp"}}, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
	if u, ok := errors.AsType[*sandbox.Unsupported](err); ok && cgroup.Unified() && u.Guarantee == "resource limits" {
		return // nothing was delegated to this user
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	init := sandbox.ProcessOf(b)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", init, init))
	if err != nil {
		t.Fatal(err)
	}
	mine, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	its, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(its), "-within\n") {
		t.Errorf("the command is bounded by no group of its own:\n%s", its)
	}
	for line := range strings.Lines(string(mine)) {
		if !strings.Contains("\n"+string(its), "\n"+strings.TrimSuffix(line, "\n")) {
			t.Errorf("its caller is in %sand the command in\n%s", line, its)
		}
	}
}

// TestJoinedAnother: a command joins no box but the one that was looked at, whose number may
// be another's when it is opened.
func TestJoinedAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the helper is root's: run this test as root")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := sandbox.Spec{ID: "joined", Name: "joined", Argv: []string{"sleep", "1000"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		User: sandbox.User{ID: caller, Name: "agent", Home: "/tmp"}}
	w := sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null}
	b, err := native.New("test").Start(t.Context(), s, w)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Argv = []string{"true"}
	gone := errors.New("it is another's")
	if _, err := native.NewLent("test", &native.Lent{User: payloads + 499, Group: payloads + 499,
		Joined: func() error { return gone }}).Exec(t.Context(), b.Handle(), s, w); !errors.Is(err, gone) {
		t.Errorf("it was entered: %v", err)
	}
}
