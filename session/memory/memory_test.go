package memory

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
)

// kept makes an image of three files, with its sheet.
func made(t *testing.T) (string, Sheet) {
	t.Helper()
	dir := t.TempDir()
	i, err := Create(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for n, f := range i.Files {
		if _, err := f.WriteString(strings.Repeat("page", 100*(n+1))); err != nil {
			t.Fatal(err)
		}
	}
	i.Shape = "false - v0"
	s := Sheet{Cloister: "box", Session: "0a", Checkpoint: "abcdefgh", Isolation: "gvisor",
		Order: []byte(`{"verb":"run","args":["x"],"publish":["80"],"name":"box","accept":["residue:wide-workspace"]}`)}
	if err := errors.Join(i.Describe(&s), Write(dir, s)); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func TestOpen(t *testing.T) {
	dir, s := made(t)
	read, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := read.Claim()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := s.Digest(); err != nil || claim.Digest != want {
		t.Fatalf("digest %q, want %q, %v", claim.Digest, want, err)
	}
	i, err := Open(dir, read)
	if err != nil {
		t.Fatal(err)
	}
	i.Sound = compare(i, read)
	if err := errors.Join(i.Known(), i.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		at := filepath.Join(dir, name)
		if fi, err := os.Stat(at); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
		was, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		now := append([]byte{}, was...)
		now[len(now)/2] ^= 1
		if err := os.WriteFile(at, now, 0o600); err != nil {
			t.Fatal(err)
		}
		i, err := Open(dir, read)
		if err != nil {
			t.Fatal(err)
		}
		i.Sound = compare(i, read)
		if err := errors.Join(i.Known(), i.Close()); err == nil || !strings.Contains(err.Error(), "was changed: its file "+name) {
			t.Errorf("one bit of %s: %v", name, err)
		}
		if err := os.WriteFile(at, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSheet: whatever is written into a sheet makes another digest than the guardian sealed.
func TestSheet(t *testing.T) {
	_, s := made(t)
	was, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Sheet){
		"file":     func(s *Sheet) { s.Files = append([]File{}, s.Files...); s.Files[2].Digest = "00" },
		"order":    func(s *Sheet) { s.Order = []byte(`{"verb":"run","allow":["*"]}`) },
		"programs": func(s *Sheet) { s.Programs = nil },
		"parent":   func(s *Sheet) { s.Session = "0b" },
	} {
		c := s
		c.Programs = []sandbox.Program{{PID: 2, Path: "/usr/bin/node"}}
		before, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		change(&c)
		if now, err := c.Digest(); err != nil || now == before {
			t.Errorf("%s: the digest stays %s, %v", what, now, err)
		}
	}
	s.Seal = []byte("seal")
	if now, err := s.Digest(); err != nil || now != was {
		t.Errorf("the seal is in its own digest: %v", err)
	}
}

func TestAccepted(t *testing.T) {
	s := Sheet{Programs: []sandbox.Program{{PID: 1, Path: "/run/.cloister/first"}, {PID: 2, Path: "/usr/bin/dash"}}}
	if err := Accepted(s.Programs, nil); err != nil {
		t.Errorf("proven: %v", err)
	}
	s.Programs = append(s.Programs, sandbox.Program{PID: 7, Path: "/usr/bin/node"}, sandbox.Program{PID: 8, Path: "/tmp/first"})
	err := Accepted(s.Programs, []string{"wide-workspace"})
	repeating, ok := errors.AsType[*Repeating](err)
	if !ok || len(repeating.Programs) != 2 || !strings.Contains(err.Error(), "node (process 7: Math.random") ||
		!strings.Contains(err.Error(), "first (process 8: not looked at)") {
		t.Errorf("unproven: %v", err)
	}
	if err := Accepted(s.Programs, []string{"fork-randomness"}); err != nil {
		t.Errorf("accepted: %v", err)
	}
}

func TestOrder(t *testing.T) {
	_, s := made(t)
	o, err := s.order("/image", "child", []string{"residue:fork-randomness"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Name != "child" || o.From != "/image" || len(o.Publish) != 0 || o.Isolation != "gvisor" || o.Workspace != "overlay" {
		t.Errorf("%+v", o)
	}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
}
