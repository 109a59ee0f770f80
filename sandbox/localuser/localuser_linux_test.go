package localuser_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/localuser"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/tools"
	"cloister/workspace"
)

const (
	release = "test"
	// caller is a user that no host has, and payloads begins the ids of theirs.
	caller   = 61907
	payloads = 1_894_100_000
	// socketOf names the helper's socket to a test that runs as the caller.
	socketOf = "CLOISTER_TEST_LOCAL"
	// toolsOf is the document that TestTools holds to what works.
	toolsOf = "CLOISTER_TEST_TOOLS"
)

// TestMain makes this test binary the process that owns a box, the helper, and a program
// that is given no user namespace, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case localuser.OwnerName:
			// os.Exit has the race detector wait a second, which each box would.
			syscall.Exit(localuser.Main(context.Background(), os.Args[2:], release))
		case localuser.HelperName:
			os.Exit(localuser.HelperMain(context.Background(), os.Args[2:], os.Stderr))
		case deniedName:
			if err := denied(os.Args[2:]); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// helper begins root's helper for a test, and gives its socket.
func helper(t *testing.T, h localuser.Helper) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the helper is root's: run this test as root")
	}
	dir := folder(t, 0)
	h.Locks, h.Log = filepath.Join(dir, "ids"), t.Output()
	if err := os.Mkdir(h.Locks, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.Addr().String(), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// deniedHelper begins the helper as a process that is given no user namespace either, as on
// a host whose limit of them is 0.
func deniedHelper(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the helper is root's: run this test as root")
	}
	return helperProcess(t, "0")
}

// helperProcess begins the helper as a process: as what denied makes of the word.
func helperProcess(t *testing.T, word string) string {
	t.Helper()
	at := filepath.Join(folder(t, 0), "l/socket")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", deniedName, word, "/proc/self/exe", localuser.HelperName,
		strconv.Itoa(caller), strconv.Itoa(payloads+50), "50", at)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() || !strings.Contains(lines.Text(), "listening") {
		t.Fatalf("the helper says %q, %v", lines.Text(), lines.Err())
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for lines.Scan() {
			t.Log(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-heard
		_ = cmd.Wait() // it was killed
	})
	return at
}

// folder is a folder of a user's in one that everybody may enter.
func folder(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // its name is short, since a test's socket lies below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asCaller runs a test of this binary as a user to whom the kernel gives no user namespace.
func asCaller(t *testing.T, uid int, socket, run string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", deniedName, strconv.Itoa(uid), "/proc/self/exe",
		"-test.run="+run, "-test.v", "-test.timeout=9m")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), socketOf+"="+socket, "TMPDIR="+folder(t, uid), "HOME=/nonexistent")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if strings.Contains(string(text), "--- SKIP") || !strings.Contains(string(text), "--- PASS") {
		t.Errorf("nothing was tested:\n%s", text)
	}
}

// socket is the helper's, in a test that asCaller runs.
func socket(t *testing.T) string {
	t.Helper()
	s := os.Getenv(socketOf)
	if s == "" {
		t.Skip("it is run by another test, as the caller")
	}
	return s
}

// TestConformance holds the driver to what a driver is, where this user gets no user namespace.
func TestConformance(t *testing.T) {
	at := helper(t, localuser.Helper{Allowed: []int{caller}, First: payloads, Count: 50})
	asCaller(t, caller, at, "^TestAsCaller$")
}

// TestTools holds docs/tools.md to what the tools of this machine do on this level.
func TestTools(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("it repeats native's with the same filter, in twenty seconds: CLOISTER_TEST_LONG=1")
	}
	at := helper(t, localuser.Helper{Allowed: []int{caller}, First: payloads + 300, Count: 50})
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(folder(t, 0), "tools.md") // a caller may not reach the original
	if err := os.WriteFile(document, text, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(toolsOf, document)
	asCaller(t, caller, at, "^TestAsCallerTools$")
}

func TestAsCallerTools(t *testing.T) {
	at := socket(t)
	tools.Hold(t, tools.Level{Name: localuser.Name, Document: os.Getenv(toolsOf), Root: "/",
		Run: sandboxtest.Script(func() sandbox.Driver { return localuser.New(at, release) })})
}

// TestOwnAccount: where not even root gets a user namespace the payload is the caller, and
// everything but overlays is as it was.
func TestOwnAccount(t *testing.T) {
	asCaller(t, caller, deniedHelper(t), "^TestAsCallerOwnAccount$")
}

func TestAsCallerOwnAccount(t *testing.T) {
	at := socket(t)
	h := sandboxtest.New(t, localuser.New(at, release))
	h.Write(t, ".mcp.json", "original")
	h.Write(t, "private", "x")
	if err := os.Chmod(filepath.Join(h.Project, "private"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := h.Run(t, sandboxtest.Options{}, "sh", "-c",
		"id -u; cat private; echo evil >.mcp.json || echo held; echo made >made; unshare -U true || echo none; cat /etc/shadow || echo closed")
	if want := strconv.Itoa(os.Getuid()) + "\nxheld\nnone\nclosed\n"; out.Err != nil || out.Stdout != want {
		t.Errorf("%+v, want %q", out, want)
	}
	fi, err := os.Stat(filepath.Join(h.Project, "made"))
	if err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Errorf("what was made: %+v, %v", fi, err)
	}
	out = h.Run(t, sandboxtest.Options{View: func(o *workspace.Options) { o.Overlay = true }}, "true")
	if u, ok := errors.AsType[*sandbox.Unsupported](out.Err); !ok || u.Guarantee != "overlay workspace" {
		t.Errorf("an overlay: %+v", out)
	}
}

func TestAsCaller(t *testing.T) {
	at := socket(t)
	// The control: native gets none here.
	out := sandboxtest.New(t, native.New("test")).Run(t, sandboxtest.Options{}, "true")
	var u *sandbox.Unsupported
	if !errors.As(out.Err, &u) || u.Guarantee != "namespaces" {
		t.Fatalf("a user namespace can be had: %+v", out)
	}
	sandboxtest.Run(t, func() sandbox.Driver { return localuser.New(at, release) })
}
