package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox/image"
)

// FuzzUnpack lays layers down whose entries are the lines of a script: a kind, a
// name, and what it links to. OUT stands for the folder beside the root.
func FuzzUnpack(f *testing.F) {
	for _, script := range []string{
		"f a\nf a/b", "l a OUT\nf a/canary", "l a ../\nf a/canary", "h a OUT/canary\nf a", "l a ..\nh b a/canary\nf b", "w OUT/canary", "l a OUT\nw a/canary",
		"l a OUT\no a", "d a\nl a/b ../../canary\nf a/b", "l a a\nf a/x", "l usr OUT\nd usr\nf usr/canary", "f ../canary", "f a/../../canary", "l a b\nl b ../..\nf a/canary", "f .wh...", "d .",
	} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 4096 {
			return
		}
		top, err := os.MkdirTemp("", "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(top)
		if err := os.WriteFile(filepath.Join(top, "canary"), []byte("whole"), 0o644); err != nil {
			t.Fatal(err)
		}
		// An error is as good as a layer: what counts is what is outside afterwards.
		_ = image.Unpack(filepath.Join(top, "root"), bytes.NewReader(scripted(strings.ReplaceAll(script, "OUT", top))))
		entries, err := os.ReadDir(top)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(top, "canary")); err != nil || string(text) != "whole" || len(entries) > 2 {
			t.Fatalf("outside: %q, %v, %v", text, err, entries)
		}
	})
}

// scripted writes the entries of a script as an archive, as far as they can be.
func scripted(script string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for line := range strings.Lines(script) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, to, _ := strings.Cut(rest, " ")
		h := tar.Header{Name: name, Mode: 0o7777}
		switch kind {
		case "d":
			h.Typeflag = tar.TypeDir
		case "l":
			h.Typeflag, h.Linkname = tar.TypeSymlink, to
		case "h":
			h.Typeflag, h.Linkname = tar.TypeLink, to
		case "w":
			h.Typeflag, h.Name = tar.TypeReg, filepath.Dir(name)+"/.wh."+filepath.Base(name)
		case "o":
			h.Typeflag, h.Name = tar.TypeReg, name+"/.wh..wh..opq"
		default:
			h.Typeflag, h.Size = tar.TypeReg, 4
		}
		if err := w.WriteHeader(&h); err != nil {
			continue
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, "evil") // into memory
		}
	}
	_ = w.Close() // an archive that ends early is one more to try
	return buf.Bytes()
}
