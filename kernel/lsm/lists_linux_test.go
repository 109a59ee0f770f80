package lsm_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
)

// attempt is what a row tries: lists and guards are tried by the same attempts as rules.
func (r row) attempt() string { return strings.TrimPrefix(r.name, "list: ") }

// box is what every policy with lists permits in the guest: what an attempt itself needs.
var box = []lsm.Rule{
	{Path: "/init", Permit: lsm.Read | lsm.Exec | lsm.Code},
	{Path: "/proc", Permit: lsm.Read | lsm.Write}, {Path: "/dev", Permit: lsm.Read | lsm.Write}, {Path: "/sys", Permit: lsm.Read | lsm.Write},
	{Path: "/bin", Permit: lsm.Read | lsm.Exec | lsm.Code},
	{Path: "/lib", Permit: lsm.Read | lsm.Code}, {Path: "/lib64", Permit: lsm.Read | lsm.Exec | lsm.Code},
}

// Of files only /t/open is permitted, and to read programs; of programs none of /t. A folder that is there to be listed is.
func lists() *lsm.Policy {
	return &lsm.Policy{Permit: lsm.List, Rules: append([]lsm.Rule{
		{Path: "/t/open", Permit: lsm.Read | lsm.Write}, {Path: "/t/bin", Permit: lsm.Read},
	}, box...)}
}

// listRows are what is tried of what no permit names.
func listRows() []row {
	var out []row
	for _, name := range []string{
		"open", "open deep", "symlink", "hard link", "rename", "exchange", "O_PATH and /proc/self/fd", "/proc/self/root", "open by handle",
		"io_uring", "chroot", "working folder", "bind mount", "create", "write", "append", "truncate", "remove", "rename into", "link into",
		"make a folder", "make a symlink", "make a node", "O_TMPFILE", "mode", "owner", "times", "attribute", "mode by a descriptor",
		"execute", "by a link", "by a hard link", "by its folder", "execveat", "mmap as code", "mprotect as code", "memfd", "by ld.so",
		"a script", "a copy", "by a shell",
	} {
		out = append(out, row{name: "list: " + name, policy: lists()})
	}
	return append(out,
		row{name: "list: a passed descriptor", policy: lists(), prepare: passed},
		row{name: "list: a received memfd", policy: lists(), prepare: passedMemfd},
		row{name: "list: moved cgroup", policy: lists(), meanwhile: moveOut},
		row{name: "list: a script by its interpreter", policy: lists(), outOfReach: true},
	)
}

// passedMemfd is a socket in which a program waits that no path leads to: of a session that may make such.
func passedMemfd(t *testing.T) []*os.File {
	text, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "program")
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	return send(t, f)
}

// listens is a socket in the forbidden folder, of the host.
func listens(network string) func(t *testing.T) []*os.File {
	return func(t *testing.T) []*os.File {
		var c interface{ Close() error }
		var err error
		if network == "unix" {
			c, err = net.Listen(network, "/t/secret/socket")
		} else {
			c, err = net.ListenUnixgram(network, &net.UnixAddr{Name: "/t/secret/socket", Net: network})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return nil
	}
}

// layered is an overlay of the host, whose inodes are not those of its layers.
func layered(t *testing.T) []*os.File {
	for _, dir := range []string{"/layers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", "/layers", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir("/layers/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/layers/lower/key", []byte("the content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("overlay", "/t/mnt", "overlay", 0, "lowerdir=/layers/lower,upperdir=/layers/upper,workdir=/layers/work"); err != nil {
		t.Fatal(err)
	}
	return nil
}

// copyUp has the host write to the file, which then lies in another layer.
func copyUp(int) error {
	f, err := os.OpenFile("/t/mnt/key", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("more\n")
	return err
}

// In a guarded session the layers of an overlay are the kernel's own: a list need not name them,
// and the files of the overlay are judged as the session sees them.
func TestKernelListsOverOverlays(t *testing.T) {
	s := begin(t)
	tree(t)
	layered(t)
	p := lists()
	p.Guarded = true
	p.Rules = append(p.Rules, lsm.Rule{Path: "/t/mnt", Permit: lsm.Read | lsm.Write})
	if err := s.Apply(os.Getpid(), *p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"copied up by the session", "removed from an overlay"} {
		if got := start(t, name, true).result(nil); got != "through" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := start(t, "open", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("beside the overlay: %s", got)
	}
}
