package kernel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox/microvm/kernel"
)

// module is the least ELF file that says which modules one needs.
func module(depends string) []byte {
	info := []byte("license=GPL\x00depends=" + depends + "\x00")
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	const head, section = 64, 64
	at := uint64(head)
	out := make([]byte, head)
	copy(out, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(out[16:], 1)  // relocatable
	le.PutUint16(out[18:], 62) // x86-64
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[40:], at+uint64(len(info)+len(names)))
	le.PutUint16(out[52:], head)
	le.PutUint16(out[58:], section)
	le.PutUint16(out[60:], 3)
	le.PutUint16(out[62:], 2)
	out = append(append(out, info...), names...)
	put := func(name, kind uint32, offset, size uint64) {
		s := make([]byte, section)
		le.PutUint32(s, name)
		le.PutUint32(s[4:], kind)
		le.PutUint64(s[24:], offset)
		le.PutUint64(s[32:], size)
		out = append(out, s...)
	}
	put(0, 0, 0, 0)
	put(1, 1, at, uint64(len(info)))
	put(10, 3, at+uint64(len(info)), uint64(len(names)))
	return out
}

// tree is a kernel with its modules, as a package has them.
func tree(t *testing.T) (image, modules string) {
	t.Helper()
	dir := t.TempDir()
	modules = filepath.Join(dir, "6.1.0-test")
	if err := os.MkdirAll(filepath.Join(modules, "kernel"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(at string, text []byte) {
		if err := os.WriteFile(at, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	image = filepath.Join(dir, "vmlinuz")
	write(image, []byte("a kernel"))
	needs := map[string]string{"virtio_pci": "virtio,virtio-ring", "virtiofs": "fuse"}
	for _, name := range append(kernel.Modules(), "virtio", "fuse") {
		if name != "nft_log" && name != "virtio_rng" {
			write(filepath.Join(modules, "kernel", name+".ko"), module(needs[name]))
		}
	}
	write(filepath.Join(modules, "kernel", "nft_log.ko.xz"), []byte("packed"))
	write(filepath.Join(modules, "modules.builtin"), []byte("kernel/drivers/virtio/virtio_ring.ko\n"))
	return image, modules
}

func unpack(io.Reader) ([]byte, error) { return module(""), nil }

func installed(t *testing.T) kernel.Installed {
	t.Helper()
	image, modules := tree(t)
	k, err := kernel.Install(filepath.Join(t.TempDir(), "k"), image, modules, unpack)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestInstall(t *testing.T) {
	k := installed(t)
	var names []string
	for _, m := range k.Modules {
		names = append(names, m.Name)
	}
	got := strings.Join(names, " ")
	if !strings.HasPrefix(got, "virtio virtio_pci virtio_console fuse virtiofs ") || !strings.HasSuffix(got, " nft_log") {
		t.Errorf("the modules, in their order: %s", got)
	}
	again, err := kernel.Load(k.Dir)
	if err != nil || again.Image != k.Image || len(again.Modules) != len(k.Modules) || again.Release != "6.1.0-test" {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestEngineModules: what an engine needs is listed apart, and a kernel without it is one all the same.
func TestEngineModules(t *testing.T) {
	k := installed(t)
	if k.Engine {
		t.Error("a kernel without the modules is said to have them")
	}
	image, modules := tree(t)
	for _, name := range kernel.EngineModules() {
		if err := os.WriteFile(filepath.Join(modules, "kernel", name+".ko"), module(""), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k, err := kernel.Install(filepath.Join(t.TempDir(), "k"), image, modules, unpack)
	if err != nil || !k.Engine {
		t.Fatalf("%v, %v", k.Engine, err)
	}
	for _, m := range k.Modules {
		if m.Engine != slices.Contains(kernel.EngineModules(), m.Name) {
			t.Errorf("%s is for an engine: %v", m.Name, m.Engine)
		}
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := k.Initrd(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(at)
	if err != nil || !bytes.Contains(text, []byte("engine-modules/")) {
		t.Errorf("the initrd has not the engine's modules, %v", err)
	}
}

// TestLoader: a program that needs a loader is no first process.
func TestLoader(t *testing.T) {
	if _, err := installed(t).Initrd("/bin/sh"); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a program with a loader: %v", err)
	}
}

// TestDigests boots nothing that is not what was installed.
func TestDigests(t *testing.T) {
	if _, err := kernel.Load(t.TempDir()); !errors.Is(err, kernel.ErrNone) {
		t.Errorf("without a kernel: %v", err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	change := func(at string) {
		if err := os.WriteFile(at, []byte("another"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := installed(t)
	change(k.ImageFile())
	if _, err := kernel.Load(k.Dir); err == nil || !strings.Contains(err.Error(), "its digest is another") {
		t.Errorf("another kernel: %v", err)
	}
	k = installed(t)
	change(filepath.Join(k.Dir, k.Modules[0].Digest))
	if _, err := k.Initrd(program); err == nil || !strings.Contains(err.Error(), "its digest is another") {
		t.Errorf("another module: %v", err)
	}
	k = installed(t)
	first, err := k.Initrd(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(first)
	if err != nil || !bytes.Contains(text, []byte("cloister-guest\x00")) || !bytes.Contains(text, []byte("a program")) ||
		!bytes.Contains(text, []byte("modules/00-virtio\x00")) {
		t.Errorf("the initrd is %q, %v", text, err)
	}
	change(first)
	if again, err := k.Initrd(program); err != nil || again != first {
		t.Errorf("%s is made anew as %s, %v", first, again, err)
	}
	if mended, err := os.ReadFile(first); err != nil || !bytes.Equal(mended, text) {
		t.Errorf("another initrd is booted, %v", err)
	}
	change(program)
	if again, err := k.Initrd(program); err != nil || again == first {
		t.Errorf("of another program: %s, %v", again, err)
	}
	k.Image = "../../etc/passwd"
	if err := k.Write(); err != nil {
		t.Fatal(err)
	}
	if _, err := kernel.Load(k.Dir); err == nil {
		t.Error("a name that is no digest is read")
	}
}

func TestLacks(t *testing.T) {
	image, modules := tree(t)
	if err := os.Remove(filepath.Join(modules, "kernel", "fuse.ko")); err != nil {
		t.Fatal(err)
	}
	if _, err := kernel.Install(t.TempDir(), image, modules, unpack); err == nil || !strings.Contains(err.Error(), "fuse") {
		t.Errorf("without fuse: %v", err)
	}
}
