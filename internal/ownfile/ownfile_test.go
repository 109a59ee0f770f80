package ownfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/ownfile"
)

func TestOnlyOwnFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := at("outside")
	if err := errors.Join(
		os.WriteFile(outside, []byte("keep"), 0o600), os.WriteFile(at("file"), []byte("text"), 0o600),
		os.Symlink(outside, at("link")), os.Symlink(at("absent"), at("dangling")), unix.Mkfifo(at("pipe"), 0o600),
		os.Mkdir(at("folder"), 0o700), os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40),
		os.Symlink(at("folder"), at("away")),
	); err != nil {
		t.Fatal(err)
	}
	if text, err := ownfile.Read(at("file"), 4); err != nil || string(text) != "text" {
		t.Fatalf("its own file: %q, %v", text, err)
	}
	if _, err := ownfile.Read(at("none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	strange := func(what string, err error) {
		t.Helper()
		if s := (*ownfile.Strange)(nil); !errors.As(err, &s) || len(s.Hints()) == 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"link", "dangling", "pipe", "folder", "sparse"} {
		_, err := ownfile.Read(at(name), 1<<10)
		strange("read a "+name, err)
		if name == "sparse" {
			continue
		}
		strange("look at a "+name, ownfile.File(at(name)))
		if name != "folder" {
			_, err = ownfile.Create(at(name))
			strange("create a "+name, err)
		}
	}
	strange("a link to a folder", ownfile.Folder(at("away")))
	strange("a file for a folder", ownfile.Folder(at("file")))
	if err := ownfile.Folder(at("folder")); err != nil {
		t.Error(err)
	}
	if err := ownfile.Write(at("link"), []byte("new")); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(outside); string(text) != "keep" {
		t.Errorf("what the link led to says %q", text)
	}
	if text, _ := os.ReadFile(at("link")); string(text) != "new" {
		t.Errorf("in place of the link: %q", text)
	}
	if _, err := os.Lstat(at("absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made through a dangling link: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(at("file"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := ownfile.Open(at("file"))
	strange("another account's file", err)
}
