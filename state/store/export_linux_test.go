package store_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"cloister/state/store"
)

func unrecorded(store.Checkpoint) error { return nil }

// left lists what a store holds beside locks.
func (w *world) left() string {
	var out []string
	err := filepath.WalkDir(filepath.Join(w.data, "state"), func(name string, d os.DirEntry, err error) error {
		if err == nil && !strings.HasSuffix(name, "lock") {
			out = append(out, strings.TrimPrefix(name, w.data))
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestExportImport(t *testing.T) {
	w := newWorld(t)
	use := must(t, must2(w.store.Begin("x", w.project, "claude")), nil)
	up := filepath.Join(use.Mount.Store, use.Mount.Project.Upper)
	put(t, up, "a", "ONE")
	put(t, up, "n/o", "new")
	put(t, up, "odd\nna\xffme", "odd")
	put(t, filepath.Join(use.Mount.Store, use.Mount.Home.Upper), "talk", "said")
	for _, err := range []error{
		unix.Mknod(filepath.Join(up, "d"), unix.S_IFCHR, 0), os.Symlink("../out", filepath.Join(up, "l")),
		os.Link(filepath.Join(up, "a"), filepath.Join(up, "a2")), unix.Mkfifo(filepath.Join(up, "pipe"), 0o600),
		os.Mkdir(filepath.Join(up, "op"), 0o755), unix.Setxattr(filepath.Join(up, "op"), "user.overlay.opaque", []byte("y"), 0),
		os.WriteFile(filepath.Join(up, "sparse"), []byte("begin"), 0o600), os.Truncate(filepath.Join(up, "sparse"), 1<<40),
		os.Chmod(filepath.Join(up, "n"), 0o000), use.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(up, "n"), 0o700) })
	ws := w.lock("x")
	c := must(t, must2(ws.Save(t.Context(), "to take along", false, nil)), nil)
	want := paths(w.diff(ws, c.ID))
	for _, withHome := range []bool{true, false} {
		var file bytes.Buffer
		if err := ws.Export(&file, c.ID, withHome); err != nil {
			t.Fatal(err)
		}
		if file.Len() > 10_000 {
			t.Errorf("%d bytes: the sparse file was written out", file.Len())
		}
		there := newWorld(t)
		got, from, err := there.store.Import(t.Context(), &file, "y", there.project, unrecorded)
		if err != nil || got.Message != "to take along" || from != w.project {
			t.Fatalf("%+v, %q, %v", got, from, err)
		}
		ys := there.lock("y")
		if is := paths(there.diff(ys, got.ID)); is != strings.ReplaceAll(want, "added pipe, ", "") {
			t.Errorf("got  %s\nwant %s", is, want)
		}
		if err := ys.Verify(got); err != nil || ys.Agent != "claude" {
			t.Error(err, ys.Agent)
		}
		found, err := filepath.Glob(filepath.Join(there.data, "state/fs*/*/home/talk"))
		if err != nil || (len(found) == 1) != withHome {
			t.Errorf("with home %t: %q, %v", withHome, found, err)
		}
		_ = ys.Close()
		if err := there.store.Remove("y"); err != nil {
			t.Error(err)
		}
	}
}

// archive makes one of entries, which need not be right.
func archive(t testing.TB, entries ...*tar.Header) []byte {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	const head = `{"version":1,"name":"x","layers":1}`
	entries = append([]*tar.Header{{Name: "cloister-checkpoint.json", Typeflag: tar.TypeReg, Size: int64(len(head))}}, entries...)
	for i, h := range entries {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", int(h.Size))
		if i == 0 {
			text = head
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hostile are archives that must not be taken.
func hostile(t testing.TB) map[string][]byte {
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 3, Mode: 0o644}
	}
	link := func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	dir := &tar.Header{Name: "0/up/d", Typeflag: tar.TypeDir, Mode: 0o755}
	return map[string][]byte{
		"up and out":              archive(t, file("0/up/../../../canary")),
		"an absolute name":        archive(t, file("/0/up/x")),
		"another spelling":        archive(t, dir, file("0/up/d/./x")),
		"through a link":          archive(t, link("0/up/l", "/"), file("0/up/l/canary")),
		"a link, then a folder":   archive(t, link("0/up/d", "/"), dir),
		"twice":                   archive(t, file("0/up/x"), file("0/up/x")),
		"out of its folder":       archive(t, dir, file("0/up/x"), file("0/up/d/x")),
		"no folder of it":         archive(t, file("0/up/n/x")),
		"a hard link out":         archive(t, &tar.Header{Name: "0/up/h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"a hard link up":          archive(t, &tar.Header{Name: "0/up/h", Typeflag: tar.TypeLink, Linkname: "0/up/../../../../canary"}),
		"a hard link to a link":   archive(t, link("0/up/l", "/etc/passwd"), &tar.Header{Name: "0/up/h", Typeflag: tar.TypeLink, Linkname: "0/up/l"}),
		"a hard link, other part": archive(t, file("0/up/x"), &tar.Header{Name: "0/home/h", Typeflag: tar.TypeLink, Linkname: "0/up/x"}),
		"a device":                archive(t, &tar.Header{Name: "0/up/mem", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}),
		"a disk":                  archive(t, &tar.Header{Name: "0/up/disk", Typeflag: tar.TypeBlock}),
		"a pipe":                  archive(t, &tar.Header{Name: "0/up/p", Typeflag: tar.TypeFifo}),
		"another layer":           archive(t, file("1/up/x")),
		"a negative layer":        archive(t, file("-1/up/x")),
		"a file as a folder":      archive(t, file("0/up/x"), file("0/up/x/y")),
		"the kernel's folder":     archive(t, file("0/work/x")),
		"the layer itself":        archive(t, file("0/up")),
		"mixed parts":             archive(t, file("0/up/x"), file("0/home/x"), file("0/up/y")),
		"a sparse lie":            archive(t, &tar.Header{Name: "0/up/s", Typeflag: tar.TypeReg, Size: 3, Format: tar.FormatPAX, PAXRecords: map[string]string{"CLOISTER.sparse": "9 0+9"}}),
		"a sparse negative":       archive(t, &tar.Header{Name: "0/up/s", Typeflag: tar.TypeReg, Size: 3, Format: tar.FormatPAX, PAXRecords: map[string]string{"CLOISTER.sparse": "9 -3+3"}}),
		"a sparse overflow":       archive(t, &tar.Header{Name: "0/up/s", Typeflag: tar.TypeReg, Size: 3, Format: tar.FormatPAX, PAXRecords: map[string]string{"CLOISTER.sparse": "9223372036854775807 9223372036854775807+3"}}),
		"no sum":                  archive(t, file("0/up/x")),
		"a wrong sum":             archive(t, file("0/up/x"), &tar.Header{Name: "cloister-sum", Typeflag: tar.TypeReg, Size: 64}),
		"not an archive":          []byte("PK"),
		"nothing":                 nil,
	}
}

// Whatever an archive says, nothing is written beside its layers, and nothing stays.
func TestHostileArchives(t *testing.T) {
	for name, text := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.session("x", func(up string) { put(t, up, "n", "1") })
			put(t, w.data, "canary", "whole")
			before := w.left()
			_, _, err := w.store.Import(t.Context(), bytes.NewReader(text), "y", w.project, unrecorded)
			if err == nil {
				t.Error("it was taken")
			}
			if early := err != nil && strings.Contains(err.Error(), "too early"); early != (name == "no sum") {
				t.Error("it was refused for another reason:", err)
			}
			if after := w.left(); after != before {
				t.Errorf("left: %s\nwas: %s", after, before)
			}
			if text, err := os.ReadFile(filepath.Join(w.data, "canary")); err != nil || string(text) != "whole" {
				t.Errorf("the canary says %q, %v", text, err)
			}
		})
	}
}

// One bit of a right archive that is another, or an end that is missing, is noticed, but
// where it says the same (a flag of the packing).
func TestBrokenArchives(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", strings.Repeat("0123456789", 200)) })
	ws := w.lock("x")
	c := must(t, must2(ws.Save(t.Context(), "", false, nil)), nil)
	var file bytes.Buffer
	if err := ws.Export(&file, c.ID, true); err != nil {
		t.Fatal(err)
	}
	try := func(text []byte) error {
		_, _, err := w.store.Import(t.Context(), bytes.NewReader(text), "y", w.project, unrecorded)
		if err != nil {
			return err
		}
		y, err := w.store.Lock("y")
		if err != nil {
			t.Fatal(err)
		}
		d := must(t, must2(y.Diff(t.Context(), "", nil)), nil)
		text, err = patched(d)
		if err := errors.Join(err, d.Close(), y.Close(), w.store.Remove("y")); err != nil {
			t.Fatal(err)
		}
		if string(text) != strings.Repeat("0123456789", 200) {
			return nil
		}
		return errSame
	}
	for at := range file.Len() {
		text := bytes.Clone(file.Bytes())
		if text[at] ^= 4; try(text) == nil {
			t.Fatalf("byte %d of %d may be another", at, file.Len())
		}
		if at%7 == 0 && try(file.Bytes()[:at]) == nil {
			t.Fatalf("%d bytes of %d are enough", at, file.Len())
		}
	}
	if err := try(file.Bytes()); !errors.Is(err, errSame) {
		t.Error("control:", err)
	}
}

var errSame = errors.New("it says the same")

func patched(d *store.Diff) ([]byte, error) {
	f, err := d.Stack.OpenNew(d.Changes[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func FuzzImport(f *testing.F) {
	for _, text := range hostile(f) {
		z, err := zstd.NewReader(bytes.NewReader(text))
		if err != nil {
			f.Fatal(err)
		}
		plain, _ := io.ReadAll(z) // as far as it goes
		f.Add(plain)
	}
	data, project := f.TempDir(), f.TempDir()
	s, err := store.Open(data, project)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		var packed bytes.Buffer
		z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MinWindowSize))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Import(t.Context(), &packed, "y", project, unrecorded); err == nil {
			if err := s.Remove("y"); err != nil {
				t.Fatal(err)
			}
		}
		for _, pattern := range []string{"state/y", "state/fs*/*"} {
			if found, err := filepath.Glob(filepath.Join(data, pattern)); err != nil || len(found) > 0 {
				t.Fatalf("left: %q, %v", found, err)
			}
		}
	})
}
