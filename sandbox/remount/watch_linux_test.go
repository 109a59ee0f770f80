package remount_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/remount"
)

func mountinfo(t *testing.T, text string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestRead(t *testing.T) {
	f := mountinfo(t, "22 1 0:20 / / ro,nosuid - tmpfs none rw\n31 22 8:300 / /a\\040b\\134c rw - ext4 /dev/x rw\nshort line\n")
	want := []remount.Mount{{ID: 22, Parent: 1, Device: unix.Mkdev(0, 20), At: "/"}, {ID: 31, Parent: 22, Device: unix.Mkdev(8, 300), At: `/a b\c`}}
	for range 2 { // from the beginning each time
		got, err := remount.Read(f)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatal(err, d)
		}
	}
	for _, line := range []string{"x 1 0:20", "1 1 020", "1 1 0:x"} {
		if _, err := remount.Read(mountinfo(t, line+" / / ro - tmpfs none rw\n")); err == nil {
			t.Errorf("%s: a line without a number was read", line)
		}
	}
	own, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if list, err := remount.Read(own); err != nil || len(list) == 0 {
		t.Error(list, err)
	}
}

func TestMissing(t *testing.T) {
	const sock, file, folder = unix.S_IFSOCK, unix.S_IFREG, unix.S_IFDIR
	for _, c := range []struct {
		name    string
		t       sandbox.Protect
		mounted bool
		kind    uint32 // 0: nothing is there
		want    *sandbox.Protect
		whole   bool
	}{
		{"is mounted", sandbox.Protect{Target: "/p", File: true}, true, file, nil, true},
		{"is absent", sandbox.Protect{Target: "/p", File: true}, false, 0, nil, false},
		{"was replaced", sandbox.Protect{Target: "/p", File: true}, false, file, &sandbox.Protect{Target: "/p", File: true}, false},
		{"is a folder by now", sandbox.Protect{Target: "/p", File: true, Instead: "/s"}, false, folder, &sandbox.Protect{Target: "/p"}, false},
		{"is a file by now", sandbox.Protect{Target: "/p"}, false, file, &sandbox.Protect{Target: "/p", File: true}, false},
		{"stays hidden", sandbox.Protect{Target: "/p", File: true, Empty: true}, false, file, &sandbox.Protect{Target: "/p", File: true, Empty: true}, false},
		{"a stub yields to a folder", sandbox.Protect{Target: "/p", File: true, Empty: true, Yields: true}, false, folder, &sandbox.Protect{Target: "/p", Yields: true}, false},
		{"a stub of a folder yields to a file", sandbox.Protect{Target: "/p", Empty: true, Yields: true}, false, file, &sandbox.Protect{Target: "/p", File: true, Yields: true}, false},
		{"a socket stays behind something empty", sandbox.Protect{Target: "/p", File: true, Empty: true, Yields: true}, false, sock, &sandbox.Protect{Target: "/p", File: true, Empty: true, Yields: true}, false},
	} {
		missing, whole := remount.Missing([]sandbox.Protect{c.t}, func(sandbox.GuestPath) bool { return c.mounted }, func(sandbox.Protect) (uint32, bool) { return c.kind, c.kind != 0 })
		var want []sandbox.Protect
		if c.want != nil {
			want = append(want, *c.want)
		}
		if d := cmp.Diff(want, missing); d != "" || whole != c.whole {
			t.Errorf("%s: whole %t, %s", c.name, whole, d)
		}
	}
}

// TestWatch looks at once, again as long as something is missing, and stops where it
// is told to and where covering fails.
func TestWatch(t *testing.T) {
	own, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	looks := 0
	err = remount.Watch(own, r, func(mounted map[string]bool) (bool, error) {
		if !mounted["/"] {
			t.Error("the root is not among the mounts")
		}
		if looks++; looks == 3 {
			w.Close()
		}
		return false, nil
	})
	if err != nil || looks < 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
	broken := errors.New("broken")
	if err := remount.Watch(own, nil, func(map[string]bool) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a failed cover gives %v", err)
	}
}
