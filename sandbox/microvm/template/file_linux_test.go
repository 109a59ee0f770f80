package template_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/template"
)

// memory is a file of zeroes.
func memory(t testing.TB, size int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const size = 64 << 20

// small is a template of a machine with little in its memory, and that memory.
func small(t testing.TB) (text []byte, whole map[int64][]byte) {
	t.Helper()
	m := memory(t, size)
	whole = map[int64][]byte{0: bytes.Repeat([]byte("a"), 5000), 3 << 20: bytes.Repeat([]byte("b"), 2<<20),
		40 << 20: make([]byte, 8192), size - 4096: bytes.Repeat([]byte("c"), 4096)}
	for at, part := range whole {
		if _, err := m.WriteAt(part, at); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := template.Write(&out, m, []byte("the devices' state")); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), whole
}

// TestMemory: what is read is what was written, and a page of zeroes takes no memory.
func TestMemory(t *testing.T) {
	text, whole := small(t)
	m := memory(t, size)
	state, err := template.Read(bytes.NewReader(text), digest(text), m, size)
	if err != nil || string(state) != "the devices' state" {
		t.Fatalf("%q, %v", state, err)
	}
	for at, want := range whole {
		got := make([]byte, len(want))
		if _, err := m.ReadAt(got, at); err != nil || !bytes.Equal(got, want) {
			t.Errorf("at %d: another memory, %v", at, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(m.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if took := st.Blocks * 512; took > 2<<20+4*4096 {
		t.Errorf("the memory takes %d bytes", took)
	}
}

// TestChanged: a template of which one byte is another, one is missing or one is more, is none.
func TestChanged(t *testing.T) {
	text, _ := small(t)
	was := digest(text)
	read := func(text []byte, size int64) error {
		_, err := template.Read(bytes.NewReader(text), was, memory(t, size), size)
		return err
	}
	if err := read(text, size); err != nil {
		t.Fatalf("the control: %v", err)
	}
	end := len(text)
	for _, at := range []int{0, 20, 25, 30, 40, end / 2, end - 30, end - 20, end - 10, end - 1} {
		other := bytes.Clone(text)
		other[at] ^= 1
		if err := read(other, size); !errors.Is(err, template.ErrChanged) {
			t.Errorf("byte %d of %d: %v", at, len(text), err)
		}
	}
	for name, other := range map[string][]byte{"nothing": nil, "the end": text[:len(text)-1], "a half": text[:len(text)/2],
		"a head": text[:30], "more": append(bytes.Clone(text), 0)} {
		if err := read(other, size); !errors.Is(err, template.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read(text, size/2); !errors.Is(err, template.ErrChanged) {
		t.Errorf("of a larger machine: %v", err)
	}
}

// FuzzRead: no bytes make more of a memory than it is, or a template of another digest.
func FuzzRead(f *testing.F) {
	text, _ := small(f)
	f.Add(text[:6000])
	f.Add(append(text[:20:20], bytes.Repeat([]byte{0xff}, 16)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		const size = 1 << 20
		m := memory(t, size)
		if _, err := template.Read(bytes.NewReader(text), "00", m, size); err == nil {
			t.Error("it has no such digest")
		}
		if fi, err := m.Stat(); err != nil || fi.Size() != size {
			t.Errorf("the memory has %d bytes, %v", fi.Size(), err)
		}
	})
}

// write is a maker of templates with that text.
func write(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

// files are the names in a store.
func files(t *testing.T, s template.Store) (names []string) {
	t.Helper()
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, filepath.Base(e.Name()))
	}
	return names
}
