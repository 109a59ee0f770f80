package streams_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/streams"
)

func mode(t *testing.T, f *os.File) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Mode & 0o777
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func memory(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("streams", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLook(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := streams.Look(1, file, true)
	if err != nil || !got.File || got.Terminal || got.Flags&unix.O_ACCMODE != unix.O_WRONLY {
		t.Errorf("a file: %+v, %v", got, err)
	}
	if mode(t, file) != 0o600 {
		t.Errorf("the file on disk has mode %o now", mode(t, file))
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := streams.Look(0, dir, false); err == nil || !strings.Contains(err.Error(), "standard input is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := streams.Look(2, nil, false); err == nil || !strings.Contains(err.Error(), "standard error is missing") {
		t.Errorf("no descriptor: %v", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if got, err := streams.Look(0, null, true); err != nil || got != (streams.Stream{}) {
		t.Errorf("/dev/null: %+v, %v", got, err)
	}
}

// TestPipe: another user gets the direction that is handed over, and no other.
func TestPipe(t *testing.T) {
	r, w := pipe(t)
	for _, f := range []*os.File{r, w} {
		if got, err := streams.Look(0, f, false); err != nil || got != (streams.Stream{}) {
			t.Errorf("a pipe: %+v, %v", got, err)
		}
	}
	if mode(t, r) != 0o600 {
		t.Errorf("of the caller's own user nothing is to be changed: %o", mode(t, r))
	}
	if _, err := streams.Look(0, r, true); err != nil || mode(t, r) != 0o604 {
		t.Errorf("an input has mode %o, %v", mode(t, r), err)
	}
	r2, w2 := pipe(t)
	if _, err := streams.Look(1, w2, true); err != nil || mode(t, r2) != 0o602 {
		t.Errorf("an output has mode %o, %v", mode(t, r2), err)
	}
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if _, err := streams.Look(0, fifo, true); err != nil || mode(t, fifo) != 0o600 {
		t.Errorf("a pipe with a name has mode %o, %v", mode(t, fifo), err)
	}
}

func TestMemory(t *testing.T) {
	f := memory(t)
	if got, err := streams.Look(0, f, true); err != nil || got != (streams.Stream{}) {
		t.Errorf("a memory file: %+v, %v", got, err)
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := streams.Look(0, again, false); err == nil || !strings.Contains(err.Error(), "pass a pipe") {
		t.Errorf("a memory file for reading alone: %v", err)
	}
}
