package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/api"
	"cloister/sandbox"
	"cloister/session/launch"
	"cloister/state/sealed"
)

// secret is what a program had in its memory.
const secret = "what a program had in its memory"

// chunk is what age encrypts at once, with what proves it.
const chunk = 64<<10 + 16

// madeEncrypted makes an image of several chunks that is encrypted, with its sheet, and gives its key.
func madeEncrypted(t *testing.T, dir string) (text []byte, s Sheet, key string) {
	t.Helper()
	o, err := Create(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Repeat(secret+"\n", 10_000))
	for n, f := range o.Files {
		if _, err := f.Write(text[n:]); err != nil {
			t.Fatal(err)
		}
	}
	o.Shape = "false - v0"
	s = Sheet{Cloister: "box", Session: "0a", Checkpoint: "abcdefgh", Isolation: "gvisor", Order: []byte(`{"verb":"run","args":["x"]}`)}
	if err := errors.Join(o.Describe(&s), o.Close(), Write(dir, s)); err != nil {
		t.Fatal(err)
	}
	return text, s, o.Key
}

// TestEncrypted: of an encrypted image nothing can be read on the disk, and what comes out of it is what went
// in, or an error. The sheet is made to fit each change, so that the cipher alone stands against it.
func TestEncrypted(t *testing.T) {
	otherKey, _, err := sealed.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func([]byte) []byte
		key    string
		says   string
	}{
		"as it was": {},
		"wrong key": {key: otherKey, says: "this does not open it"},
		"no key":    {key: "none", says: "none that age knows"},
		"one bit": {change: func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			says: "was changed: its file index.age is not as it was kept"},
		"cut": {change: func(b []byte) []byte { return b[:len(b)-100] }, says: "was changed"},
		"cut between two chunks": {change: func(b []byte) []byte { return b[:len(b)-(len(b)-header(b))%chunk] },
			says: "was changed"},
		"empty":  {change: func([]byte) []byte { return nil }, says: "was changed"},
		"longer": {change: func(b []byte) []byte { return append(b, "more"...) }, says: "was changed"},
		"swapped": {change: func(b []byte) []byte {
			at := header(b)
			first := slices.Clone(b[at : at+chunk])
			copy(b[at:], b[at+chunk:at+2*chunk])
			copy(b[at+chunk:], first)
			return b
		}, says: "was changed"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			text, s, key := madeEncrypted(t, dir)
			if c.key != "" {
				key = c.key
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 4 {
				t.Fatalf("%v, %v", entries, err)
			}
			for _, e := range entries {
				at := filepath.Join(dir, e.Name())
				there, err := os.ReadFile(at)
				if err != nil || bytes.Contains(there, []byte(secret)) || bytes.Contains(there, []byte("AGE-SECRET")) {
					t.Errorf("%s can be read, %v", e.Name(), err)
				}
				if fi, err := e.Info(); err != nil || fi.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", e.Name(), fi.Mode(), err)
				}
				if e.Name() != "index.age" || c.change == nil {
					continue
				}
				there = c.change(there)
				sum := sha256.Sum256(there)
				s.Files[1] = File{int64(len(there)), hex.EncodeToString(sum[:])}
				if err := os.WriteFile(at, there, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			clear := clearOf(t, dir, s, key)
			err = clear.Known()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			if err != nil {
				if h, ok := errors.AsType[interface {
					error
					Hints() []string
				}](err); ok {
					t.Errorf("it advises %q, which fork does not take", h.Hints())
				}
				return
			}
			for n, f := range clear.Files {
				if got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30)); err != nil || !bytes.Equal(got, text[n:]) {
					t.Errorf("%d bytes of %d came out, %v", len(got), len(text)-n, err)
				}
				if _, err := f.WriteAt([]byte("x"), 0); err == nil {
					t.Error("what is known to be sound can be changed")
				}
			}
		})
	}
	// Control: an image in the clear can be read.
	dir, _ := made(t)
	if there, err := os.ReadFile(filepath.Join(dir, "pages")); err != nil || !bytes.Contains(there, []byte("page")) {
		t.Errorf("in the clear it cannot be read: %v", err)
	}
}

// header is how long what precedes the first chunk is: age's own words, and 16 bytes.
func header(b []byte) int {
	at := bytes.Index(b, []byte("\n--- "))
	return at + 1 + bytes.IndexByte(b[at+1:], '\n') + 1 + 16
}

// TestPassedEncrypted: children of an encrypted image go on from what was decrypted once, each by an offset of its
// own, and only by the sheet that it was decrypted by.
func TestPassedEncrypted(t *testing.T) {
	dir := t.TempDir()
	text, s, key := madeEncrypted(t, dir)
	asked := 0
	b := Brancher{Key: func(_ context.Context, m api.Memory) (string, error) {
		asked++
		if m.Checkpoint != s.Checkpoint {
			t.Errorf("asked for the key of %+v", m)
		}
		return key, nil
	}}
	seen, err := b.open(t.Context(), dir, s)
	if err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	defer seen.Close()
	digest, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	other := s
	other.Session = "0b"
	for _, sheet := range []Sheet{s, s, other} {
		var got []byte
		b.Start = func(_ context.Context, o launch.Order, files ...*os.File) (launch.Answer, error) {
			var own []*os.File
			for _, f := range files[:len(files)-1] {
				fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // a shim has its own
				if err != nil {
					return launch.Answer{}, err
				}
				own = append(own, os.NewFile(uintptr(fd), "passed"))
			}
			p := Took(append(slices.Clip(own), files[len(files)-1]))
			i, err := p.image(dir, sheet)
			if err != nil {
				return launch.Answer{}, err
			}
			p.said = func() (string, error) { // the real one closes its own copy
				said, err := io.ReadAll(files[len(files)-1])
				return string(said), err
			}
			mine, err := sheet.Digest()
			if err != nil {
				return launch.Answer{}, err
			}
			i.Sound = p.vouches(i, sheet, mine)
			if err = i.Known(); err == nil {
				for _, f := range own {
					if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
						t.Errorf("what was decrypted is still held, %v", err)
					}
				}
				got, err = io.ReadAll(i.Files[0])
			}
			return launch.Answer{Name: o.Name}, errors.Join(err, i.Close())
		}
		err := b.startOne(t.Context(), launch.Order{Name: "k-1"}, seen, s)
		if mine, e := sheet.Digest(); e != nil || (err == nil) != (mine == digest) {
			t.Errorf("by a sheet of session %s: %v", sheet.Session, err)
		}
		if err == nil && !bytes.Equal(got, text) {
			t.Errorf("%d bytes came out", len(got))
		}
	}
	if _, err := (*Passed)(nil).image(dir, s); err == nil || !strings.Contains(err.Error(), "is encrypted") {
		t.Errorf("without what was passed: %v", err)
	}
	b.Key = func(context.Context, api.Memory) (string, error) { return "", errors.New("no guardian") }
	if _, err := b.open(t.Context(), dir, s); err == nil {
		t.Error("without a key it opens")
	}
}

// TestEncryptedFull: a cloister whose memory is kept waits for no disk, and where that takes nothing the memory is not kept.
func TestEncryptedFull(t *testing.T) {
	o, err := Create(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range o.files {
		_ = f.Close() // whatever is written now is an error
	}
	for _, f := range o.Files {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Describe(&Sheet{}); err == nil {
		t.Error("what was not written is described")
	}
}

// clearOf is an encrypted image in the clear, which may turn out to be none.
func clearOf(t *testing.T, dir string, s Sheet, key string) *sandbox.Image {
	t.Helper()
	i, err := Open(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	clear, err := decrypted(i, s, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clear.Close() })
	return clear
}

// TestSwappedFiles: the files of an image have one key, and none goes on in another's place.
func TestSwappedFiles(t *testing.T) {
	dir := t.TempDir()
	_, s, key := madeEncrypted(t, dir)
	state, index := filepath.Join(dir, "state.age"), filepath.Join(dir, "index.age")
	if err := errors.Join(os.Rename(state, state+"2"), os.Rename(index, state), os.Rename(state+"2", index)); err != nil {
		t.Fatal(err)
	}
	clear := clearOf(t, dir, s, key)
	var changed *Changed
	if err := clear.Known(); !errors.As(err, &changed) {
		t.Errorf("%v", err)
	}
}

// TestEncryptedHollow: a file that a sandbox made long without writing it fills no disk; what is kept is let go of whoever
// still has it open.
func TestEncryptedHollow(t *testing.T) {
	for name, size := range map[string]int64{"control": 0, "hollow": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			o, err := Create(t.TempDir(), true)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			for _, f := range o.Files {
				if _, err := f.Write([]byte("text")); err != nil {
					t.Fatal(err)
				}
			}
			if size > 0 {
				if err := o.Files[2].Truncate(size); err != nil {
					t.Fatal(err)
				}
			}
			fd, err := unix.FcntlInt(o.Files[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			sandboxs := os.NewFile(uintptr(fd), "the sandbox's")
			defer sandboxs.Close()
			if err := o.Describe(&Sheet{}); (err == nil) != (size == 0) {
				t.Errorf("%v", err)
			}
			if fi, err := o.files[2].Stat(); err != nil || fi.Size() > 1<<20 {
				t.Errorf("%d bytes are on the disk, %v", fi.Size(), err)
			}
			if fi, err := sandboxs.Stat(); err != nil || fi.Size() != 0 {
				t.Errorf("%d bytes stay in memory, %v", fi.Size(), err)
			}
		})
	}
}
