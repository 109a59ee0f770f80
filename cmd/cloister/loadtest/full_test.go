//go:build linux

package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/audit"
)

// fullWord marks the test that runs in a mount namespace of its own.
const fullWord = "CLOISTER_TEST_FULL_DISK"

// RS-04: the disk of the record is full, under load. Nothing goes out that is not
// recorded, and work goes on by itself when there is space again.
func TestDiskFull(t *testing.T) {
	if os.Getenv(fullWord) == "" {
		apart(t)
		return
	}
	u := newUpstream(t)
	w := newWorld(t, u.Listener.Addr())
	w.do("guardian", "stop")
	state := filepath.Join(w.dir, "s")
	if err := unix.Mount("record", state, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.do("stop", "--all", "-t", "1s")
		w.do("guardian", "stop")
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	// What was for mounting alone is no cloister's.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	w.do("guardian", "start")
	c := w.inside()
	get := func(name string, i int) answer {
		return c.do(order{Do: "get", URL: fmt.Sprintf("http://up.example/%s%d", name, i), Number: 1, Within: 10 * time.Second})
	}
	if a := get("control", 0); a.Good != 1 {
		t.Fatalf("control: %+v", a)
	}
	var back []time.Duration
	refused, rounds := 0, number(2, 10)
	for round := range rounds {
		ballast := filepath.Join(state, "ballast")
		fill(t, ballast)
		for i := range number(40, 400) {
			refused += get(fmt.Sprintf("full%d-", round), i).Bad
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		back = append(back, eventually(t, 20*time.Second, "work goes on", func() bool { return get("back", round).Good == 1 }))
	}
	recorded := map[string]bool{}
	for e, err := range audit.Read(filepath.Join(state, "cloister", "audit"), audit.Filter{Kind: audit.HTTPRequest}) {
		if err != nil {
			t.Error(err)
		}
		recorded[e.Path] = recorded[e.Path] || e.Verdict == "allow"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	unrecorded := 0
	for path := range u.paths {
		if !recorded[path] {
			unrecorded++
		}
	}
	t.Logf("RS-04 %d times full: %d requests refused, %d of %d that went out are not recorded (bar 0); back after %v, most %v (bar 5 s)",
		rounds, refused, unrecorded, len(u.paths), quantile(back, 0.5), quantile(back, 1))
	if unrecorded > 0 {
		t.Errorf("%d requests went out unrecorded", unrecorded)
	}
	if refused < rounds*20 {
		t.Errorf("control: only %d were refused while the disk was full", refused)
	}
	if most := quantile(back, 1); most > 5*time.Second && full {
		t.Errorf("it took %v to go on", most)
	}
	w.verified()
}

// fill writes until there is no space left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := bytes.Repeat([]byte{1}, 4096); ; {
		if _, err = f.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close() // it is full
}

// apart runs this test again where it may mount: root in a mount namespace, others
// in a user namespace too, with nothing but that.
func apart(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"-test.run=^TestDiskFull$", "-test.v", "-test.timeout=5m"}
	cmd := exec.CommandContext(t.Context(), self, words...)
	cmd.Env = append(os.Environ(), fullWord+"=1", "CLOISTER_TEST_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		one := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one(os.Geteuid()), GidMappings: one(os.Getegid()),
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		}
	}
	text, err := cmd.CombinedOutput()
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("RS-04")) {
			t.Logf("%s", bytes.TrimSpace(line))
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
