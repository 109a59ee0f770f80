package microvm_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
)

// draws lists what must be another in each machine, a name and a value a line.
const draws = `
import ctypes, os
def file(name):
    with open(name) as f: return f.read().strip()
libc = ctypes.CDLL(None)
libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
maps = file("/proc/self/maps").split("\n")
at = lambda what: next(line.split("-")[0] for line in maps if what in line)
for name, value in (
    ("getrandom", os.getrandom(64).hex()), ("urandom", open("/dev/urandom", "rb").read(64).hex()),
    ("AT_RANDOM", ctypes.string_at(libc.getauxval(25), 16).hex()), ("seed", hash("a")),
    ("boot_id", file("/proc/sys/kernel/random/boot_id")), ("uuid", file("/proc/sys/kernel/random/uuid")),
    ("stack", at("[stack]")), ("heap", at("[heap]")), ("library", at("libc"))): print(name, value)`

// TestMachineTemplate starts machines from one template. None has anything of another, or of who made it.
func TestMachineTemplate(t *testing.T) {
	outside(t)
	secret := rand.Text()
	t.Setenv("MAKERS_SECRET", secret)
	driver := ready(t)
	h := sandboxtest.New(t, driver())
	h.Write(t, "file", secret)
	h.Write(t, "draws.py", draws)
	const values = 9
	script := "set -e; hostname; date +%s.%N; cat /proc/sys/kernel/random/boot_id; python3 -IS draws.py"
	seen := map[string]int{}
	for i := range 4 {
		began := time.Now()
		var started time.Duration
		out := h.Run(t, sandboxtest.Options{
			Change: func(s *sandbox.Spec) { s.Name = "machine" + strconv.Itoa(i) },
			During: func(sandbox.Box) { started = time.Since(began) },
		}, "sh", "-c", script)
		over := time.Now()
		if out.Err != nil || out.Status.ExitCode() != 0 {
			t.Fatalf("%+v", out)
		}
		t.Logf("started in %v", started.Round(time.Millisecond))
		lines := strings.Split(strings.TrimSpace(out.Stdout), "\n")
		if len(lines) != values+3 || lines[0] != "machine"+strconv.Itoa(i) {
			t.Fatalf("%q", lines)
		}
		now, err := strconv.ParseFloat(lines[1], 64)
		low, high := float64(began.UnixMilli())/1000-1, float64(over.UnixMilli())/1000+1
		if err != nil || now < low || now > high {
			t.Errorf("the time inside is %f, between %f and %f outside", now, low, high)
		}
		if !slices.Contains(lines[3:], "boot_id "+lines[2]) {
			t.Errorf("the machine has another boot_id each time: %q", lines)
		}
		for _, line := range lines[3:] {
			if other, ok := seen[line]; ok {
				t.Errorf("%q in machine %d and in machine %d", line, other, i)
			}
			seen[line] = i
		}
	}
	for _, at := range templates(t, driver()) {
		text, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte(h.Project)) {
			t.Error("the template has something of who made it")
		}
		if !bytes.Contains(text, []byte("cloister-guest")) { // the control
			t.Error("the template has no guest")
		}
	}
}

// TestMachineBoots starts a machine as where no template could be made.
func TestMachineBoots(t *testing.T) {
	h := sandboxtest.New(t, built(t)())
	began := time.Now()
	out := h.Run(t, sandboxtest.Options{}, "cat", "/proc/cmdline")
	if out.Err != nil || !strings.Contains(out.Stdout, "rdinit=") {
		t.Errorf("%+v", out)
	}
	t.Logf("all in %v", time.Since(began).Round(time.Millisecond))
	if list, err := filepath.Glob(filepath.Join(h.Driver.(accepting).dir, "templates", "*")); err != nil || len(list) > 0 {
		t.Errorf("there are %q, %v", list, err)
	}
}

// templates are the files of a driver's.
func templates(t *testing.T, d sandbox.Driver) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(d.(accepting).dir, "templates", "*.*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("there is no template: %v", err)
	}
	return list
}

// TestMachineTemplateChanged: a template that is not what was kept starts no machine, and says what makes another.
func TestMachineTemplateChanged(t *testing.T) {
	driver := ready(t)
	at := templates(t, driver())[0]
	was, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	const makes = "cloister setup microvm makes another"
	kernel := bytes.Index(was, []byte("cloister-guest"))
	for name, change := range map[string]func() error{
		"memory": func() error { return flip(at, int64(kernel)) },
		"state":  func() error { return flip(at, int64(len(was)-1000)) },
		"end":    func() error { return os.Truncate(at, int64(len(was)/2)) },
		"link":   func() error { return os.Rename(at, at+"-away") },
	} {
		t.Run(name, func(t *testing.T) {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if name == "link" {
				if err := os.Symlink(at+"-away", at); err != nil {
					t.Fatal(err)
				}
			}
			h := sandboxtest.New(t, driver())
			out := h.Run(t, sandboxtest.Options{}, "touch", "began")
			said := fmt.Sprint(out.Err)
			if u, ok := errors.AsType[*sandbox.Unsupported](out.Err); ok {
				said += ": " + u.Fix
			}
			if !strings.Contains(said, "the template of this machine: ") || !strings.HasSuffix(said, ": "+makes) {
				t.Errorf("it is said: %s", said)
			}
			if _, err := os.Stat(filepath.Join(h.Project, "began")); err == nil {
				t.Error("the command ran")
			}
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, was, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// flip changes one bit of a file.
func flip(at string, where int64) error {
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, where); err != nil {
		return err
	}
	one[0] ^= 1
	_, err = f.WriteAt(one, where)
	return err
}
