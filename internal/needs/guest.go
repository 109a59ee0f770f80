package needs

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Guest is a kernel of its own, booted by QEMU without acceleration, and the test program
// that calls this as its first process.
type Guest struct {
	Kernel  string            // the folder of an unpacked package of Debian's
	Files   map[string]string // by their paths in the guest, those of the host
	Modules []string          // of the kernel, by their files' names, in their order
	Env     string            // variables of the first process
	Run     string            // the pattern of its tests
	Steady  bool              // its time is counted in instructions: other work of the host changes no measurement
}

// Release is the kernel's name.
func (g Guest) Release(t testing.TB) string {
	t.Helper()
	kernels, err := filepath.Glob(g.Kernel + "/boot/vmlinuz-*")
	if err != nil || len(kernels) != 1 {
		t.Fatalf("%s has the kernels %q, %v", g.Kernel, kernels, err)
	}
	return strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
}

// Boot runs the guest to its end, and gives what it wrote to its console.
func (g Guest) Boot(t testing.TB) string {
	t.Helper()
	qemu := Program(t, "qemu", "qemu-system-x86_64")
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(initrd, g.initrd(t), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	threads := []string{"-smp", "2"}
	if g.Steady {
		threads = []string{"-smp", "1", "-icount", "shift=1,align=off,sleep=off"}
	}
	// no_timer_check: on a busy machine the kernel finds its timer not to tick, routes interrupts
	// anew, and what a process writes to the console is lost.
	vm := exec.CommandContext(ctx, qemu, append(threads, "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "1536",
		"-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-kernel",
		g.Kernel+"/boot/vmlinuz-"+g.Release(t),
		"-initrd", initrd, "-append",
		"console=ttyS0 quiet panic=-1 no_timer_check lsm=landlock,lockdown,yama,bpf CLOISTER_GUEST=1 "+g.Env+
			" -- -test.v -test.run="+g.Run)...)
	out, err := vm.Output()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return strings.ReplaceAll(string(out), "\r", "")
}

// initrd is a file system of this program, busybox, a program with a loader and modules.
func (g Guest) initrd(t testing.TB) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"init": self, "bin/busybox": Program(t, "busybox", "busybox"), "bin/true": "/bin/true",
		"lib64/ld-linux-x86-64.so.2":     "/lib64/ld-linux-x86-64.so.2",
		"lib/x86_64-linux-gnu/libc.so.6": "/lib/x86_64-linux-gnu/libc.so.6",
	}
	maps.Copy(files, g.Files)
	archive := &cpio{}
	for name := range strings.FieldsSeq("bin lib64 lib lib/x86_64-linux-gnu modules t tmp proc sys dev") {
		archive.add(name, 0o40755, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			t.Fatal(err)
		}
		archive.add(name, 0o100755, text)
	}
	for i, name := range g.Modules {
		archive.add(fmt.Sprintf("modules/%02d-%s", i, name), 0o100644, g.module(t, name))
	}
	archive.add("TRAILER!!!", 0, nil)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(z, &archive.out); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// module is a kernel's module, unpacked.
func (g Guest) module(t testing.TB, name string) []byte {
	t.Helper()
	found, err := filepath.Glob(g.Kernel + "/lib/modules/*/kernel/*/*/" + name + "*")
	if err != nil || len(found) != 1 {
		t.Fatalf("modules %q: %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err == nil && strings.HasSuffix(found[0], ".xz") {
		text, err = exec.CommandContext(t.Context(), Program(t, "xz", "xz"), "-dc", found[0]).Output()
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// cpio writes an archive of the format newc (Documentation/driver-api/early-userspace).
type cpio struct {
	out bytes.Buffer
	n   int
}

func (c *cpio) add(name string, mode int, text []byte) {
	c.n++
	fmt.Fprintf(&c.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.n, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
	c.out.Write(text)
	c.pad()
}

func (c *cpio) pad() {
	for c.out.Len()%4 != 0 {
		c.out.WriteByte(0)
	}
}
