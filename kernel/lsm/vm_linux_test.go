package lsm_test

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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
)

// TestGuest boots the kernels that CLOISTER_LSM_KERNELS names, folders with an unpacked
// package of Debian's each, and runs this program's tests in them.
func TestGuest(t *testing.T) {
	list := os.Getenv("CLOISTER_LSM_KERNELS")
	if list == "" {
		t.Skip("CLOISTER_LSM_KERNELS names no kernels: script/test lsm")
	}
	qemu := needs.Program(t, "qemu", "qemu-system-x86_64")
	for dir := range strings.SplitSeq(list, ":") {
		kernels, err := filepath.Glob(dir + "/boot/vmlinuz-*")
		if err != nil || len(kernels) != 1 {
			t.Fatalf("%s has the kernels %q, %v", dir, kernels, err)
		}
		release := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			initrd := filepath.Join(t.TempDir(), "initrd")
			if err := os.WriteFile(initrd, initrdOf(t, dir), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			began := time.Now()
			vm := exec.CommandContext(ctx, qemu, "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nodefaults",
				"-no-reboot", "-display", "none", "-serial", "stdio", "-kernel", kernels[0], "-initrd", initrd, "-append",
				"console=ttyS0 quiet panic=-1 lsm=landlock,lockdown,yama,bpf CLOISTER_GUEST=1 GODEBUG=execerrdot=0 -- -test.v -test.run="+guestTests())
			out, err := vm.Output()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			console := strings.ReplaceAll(string(out), "\r", "")
			if !strings.Contains(console, "@@ ended 0") || !strings.Contains(console, "@@ row\t") {
				t.Errorf("the guest's tests failed:\n%s", console)
			}
			t.Logf("%d rows in %v", strings.Count(console, "@@ row\t"), time.Since(began).Round(time.Second))
			if folder := os.Getenv("CLOISTER_LSM_REPORT"); folder != "" && !t.Failed() {
				if err := writeReport(folder, release, console); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// writeReport keeps what the guest said of its attempts, in a file for each kernel.
func writeReport(folder, release, console string) error {
	text := "# " + release + "\n"
	for _, row := range regexp.MustCompile(`(?m)^@@ ((?:row|flood|loaded|cost)\t.*)$`).FindAllStringSubmatch(console, -1) {
		text += row[1] + "\n"
	}
	version := regexp.MustCompile(`^\d+\.\d+`).FindString(release)
	return os.WriteFile(filepath.Join(folder, "guest-"+version+".tsv"), []byte(text), 0o644)
}

func guestTests() string {
	if only := os.Getenv("CLOISTER_LSM_RUN"); only != "" {
		return only
	}
	return "^TestKernel"
}

// initrdOf is a file system of this program, busybox, a program with a loader and the
// kernel's module of overlayfs.
func initrdOf(t *testing.T, kernel string) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"init": self, "bin/busybox": needs.Program(t, "busybox", "busybox"), "bin/true": "/bin/true",
		"lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6": "/lib/x86_64-linux-gnu/libc.so.6",
	}
	archive := &cpio{t: t}
	for _, name := range []string{"bin", "lib64", "lib", "lib/x86_64-linux-gnu", "modules", "t", "tmp", "proc", "sys", "dev"} {
		archive.add(name, 0o40755, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			t.Fatal(err)
		}
		archive.add(name, 0o100755, text)
	}
	modules, err := filepath.Glob(kernel + "/lib/modules/*/kernel/fs/overlayfs/overlay.ko*")
	if err != nil || len(modules) != 1 {
		t.Fatalf("modules %q: %v", modules, err)
	}
	text, err := os.ReadFile(modules[0])
	if err == nil && strings.HasSuffix(modules[0], ".xz") {
		text, err = exec.CommandContext(t.Context(), needs.Program(t, "xz", "xz"), "-dc", modules[0]).Output()
	}
	if err != nil {
		t.Fatal(err)
	}
	archive.add("modules/overlay.ko", 0o100644, text)
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

// cpio writes an archive of the format newc (Documentation/driver-api/early-userspace).
type cpio struct {
	t   *testing.T
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
