package pod

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is what TestRestrict executes, where it is asked for: the command, or what starts it.
func TestMain(m *testing.M) {
	switch os.Getenv("POD_TEST") {
	case "command":
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		fmt.Println("vsock", err)
		_, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		fmt.Println("io_uring", e)
		fmt.Println("set-id", unix.Chmod(os.Args[1], 0o4755))
		fmt.Println("parent", unix.PtraceSeize(os.Getppid()))
		var core unix.Rlimit
		fmt.Println("core", unix.Getrlimit(unix.RLIMIT_CORE, &core), core.Max)
		os.Exit(0)
	case "run", "plain":
		r := Run{ID: "x" + fmt.Sprint(os.Getpid()), Argv: []string{"/proc/self/exe", os.Args[1]}, Env: []string{"POD_TEST=command"}, Dir: "/"}
		if os.Getenv("POD_TEST") == "plain" {
			c := exec.CommandContext(context.Background(), r.Argv[0], r.Argv[1:]...)
			c.Env, c.Stdout = r.Env, os.Stdout
			_ = c.Run()
			os.Exit(0)
		}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // the runtime's part
			panic(err)
		}
		runtime.LockOSThread() // root has no capabilities in a pod
		none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&none, &make([]unix.CapUserData, 2)[0]); err != nil {
			panic(err)
		}
		code, err := r.run(context.Background())
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestRestrict: a command is behind Cloister's own filter and a Landlock domain, whatever the runtime's filter lets pass.
func TestRestrict(t *testing.T) {
	file := t.TempDir() + "/f"
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	says := func(as string) map[string]string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "/proc/self/exe", file)
		c.Env = []string{"POD_TEST=" + as}
		var errs bytes.Buffer
		c.Stderr = &errs
		text, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", as, err, errs.String())
		}
		out := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			out[name] = rest
		}
		return out
	}
	held := says("run")
	for name, want := range map[string]string{
		"vsock": "address family not supported by protocol", "io_uring": "function not implemented",
		"set-id": "operation not permitted", "parent": "operation not permitted", "core": "<nil> 0",
	} {
		if held[name] != want {
			t.Errorf("%s: %q, want %q", name, held[name], want)
		}
	}
	plain := says("plain") // the control: of these at least a set-id bit and the parent are free to the same user
	for _, name := range []string{"set-id", "parent"} {
		if plain[name] != "<nil>" {
			t.Errorf("without the walls %s: %q", name, plain[name])
		}
	}
}
