package durable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
)

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"first, the longer one", "second"} {
		if err := durable.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Fatalf("read %q, %v; want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v; want 0600", info.Mode(), err)
	}
	only(t, filepath.Dir(path), "state")
}

func TestWriteFileFailsWithoutTrace(t *testing.T) {
	dir := t.TempDir()
	// A folder cannot be replaced by a file: the rename fails, the last step
	// that can.
	target := filepath.Join(dir, "target")
	if err := os.MkdirAll(filepath.Join(target, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(target, []byte("x"), 0o600); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	only(t, dir, "target")
}

func TestMissingFolderIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "file")
	if err := durable.WriteFile(missing, nil, 0o600); err == nil {
		t.Fatal("wrote into a folder that does not exist")
	}
	if err := durable.SyncDir(filepath.Dir(missing)); err == nil {
		t.Fatal("synced a folder that does not exist")
	}
}

func only(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Fatalf("folder holds %v, want only %s", entries, name)
	}
}

// A setting that leads to a device, as /dev/null does, must not cost it.
func TestNoDeviceIsReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(pipe, []byte("x"), 0o600); err == nil {
		t.Error("a pipe was replaced")
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v, %v", fi, err)
	}
	only(t, dir, "pipe")
	link := filepath.Join(dir, "link")
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(link, []byte("x"), 0o600); err != nil {
		t.Errorf("control: a link is replaced: %v", err)
	}
	only(t, dir, "link")
}

func TestEditTakesTurns(t *testing.T) {
	dir := t.TempDir()
	path, lock := filepath.Join(dir, "list.json"), filepath.Join(dir, "list.lock")
	read := func() (out []int, err error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		return out, err
	}
	const writers = 20
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			errs <- durable.Edit(path, lock, read, func(l []int) ([]int, error) { return append(l, i), nil })
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if l, err := read(); err != nil || len(l) != writers {
		t.Fatalf("of %d numbers there are %v, %v", writers, l, err)
	}
	want := errors.New("no")
	wrong := map[string]error{
		"edit": durable.Edit(path, lock, read, func([]int) ([]int, error) { return nil, want }),
		"read": durable.Edit(path, lock, func() ([]int, error) { return nil, want },
			func(l []int) ([]int, error) { return l, nil }),
	}
	for name, err := range wrong {
		if !errors.Is(err, want) {
			t.Errorf("the error of %s is %v", name, err)
		}
	}
	if l, err := read(); err != nil || len(l) != writers {
		t.Errorf("an edit that failed left %v, %v", l, err)
	}
	if err := durable.Edit(path, filepath.Join(dir, "none", "lock"), read,
		func(l []int) ([]int, error) { return nil, nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock that cannot be made: %v", err)
	}
}

func TestUpdateTakesTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "list")
	const writers = 20
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			errs <- durable.Update(path, 0o600, func(text []byte) ([]byte, error) {
				return fmt.Appendf(text, "%d\n", i), nil
			})
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != writers {
		t.Fatalf("of %d lines there are %q, %v", writers, text, err)
	}
	want := errors.New("no")
	if err := durable.Update(path, 0o600, func([]byte) ([]byte, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("the change's error is %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		t.Errorf("a change that failed left %q, %v", now, err)
	}
	only(t, filepath.Dir(path), "list")
}
