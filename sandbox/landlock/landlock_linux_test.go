package landlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/sandbox/landlock"
)

// TestTable holds what each ABI handles and grants: nothing that a kernel does not
// know, which landlock_add_rule(2) would answer with EINVAL, and no right to make a
// device anywhere.
func TestTable(t *testing.T) {
	for abi := 1; abi <= 8; abi++ {
		all := landlock.Handled(abi)
		for _, r := range landlock.Rules(abi, []string{"/tmp", "/work"}) {
			if r.Rights == 0 || r.Rights&^all != 0 {
				t.Errorf("ABI %d: %s grants %#x of %#x", abi, r.Path, r.Rights, all)
			}
			if r.Rights&(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK) != 0 {
				t.Errorf("ABI %d: devices can be made in %s", abi, r.Path)
			}
			if ioctl := r.Rights&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV != 0; ioctl != (r.Path == "/dev" && abi >= 5) {
				t.Errorf("ABI %d: the devices of %s can be controlled: %t", abi, r.Path, ioctl)
			}
		}
		attr, size := landlock.Attr(abi)
		if attr.Handled_access_fs != all || attr.Handled_access_net != 0 {
			t.Errorf("ABI %d handles %+v", abi, attr)
		}
		if scoped := attr.Scoped != 0 && size == 24; scoped != (abi >= 6) || !scoped && size != 8 {
			t.Errorf("ABI %d: scopes %#x in %d bytes", abi, attr.Scoped, size)
		}
		for flags, want := range map[int]uint64{
			unix.O_RDONLY: unix.LANDLOCK_ACCESS_FS_READ_FILE,
			unix.O_WRONLY: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
			unix.O_RDWR:   unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		} {
			if got := landlock.Opened(abi, flags|unix.O_APPEND); got != want&all {
				t.Errorf("ABI %d: a file opened with %#x gets %#x", abi, flags, got)
			}
		}
	}
	if got := landlock.Rules(5, []string{"/a"}); !slices.ContainsFunc(got, func(r landlock.Rule) bool { return r.Path == "/a" }) {
		t.Errorf("a writable place has no rule: %v", got)
	}
}

// TestEnter restricts a thread, which ends with the test, and tries what it may.
func TestEnter(t *testing.T) {
	abi, err := landlock.Version()
	if err != nil {
		needs.Missing(t, "landlock", err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, out} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	outside, err := os.Create(filepath.Join(out, "passed"))
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	other, err := os.OpenFile(filepath.Join(out, "other"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	write := func(name string) error {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		opened := map[int]uint64{int(outside.Fd()): landlock.Opened(abi, unix.O_WRONLY), int(other.Fd()): landlock.Opened(abi, unix.O_RDONLY)}
		if err := landlock.Enter(abi, []string{in}, opened); err != nil {
			t.Error(err)
			return
		}
		if err := write(filepath.Join(in, "file")); err != nil {
			t.Errorf("write where it may: %v", err)
		}
		if err := write(filepath.Join(out, "file")); !errors.Is(err, unix.EACCES) {
			t.Errorf("write where it may not: %v", err)
		}
		if err := write(filepath.Join(out, "passed")); err != nil {
			t.Errorf("write what was passed in: %v", err)
		}
		if err := unix.Truncate(filepath.Join(out, "other"), 0); !errors.Is(err, unix.EACCES) && abi >= 3 {
			t.Errorf("truncate what was passed in for reading: %v", err)
		}
		if fd, err := unix.Open("/usr", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			t.Errorf("read the view: %v", err)
		} else {
			unix.Close(fd)
		}
	}()
	<-done
}
