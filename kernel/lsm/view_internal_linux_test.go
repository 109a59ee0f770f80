package lsm

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const mountinfo = `21 1 0:19 / / rw,relatime - tmpfs tmpfs rw
22 21 254:0 /usr /usr ro,nosuid - ext4 /dev/vda rw
23 21 254:0 /home/a\040b/p /home/a\040b/p rw - ext4 /dev/vda rw
24 23 0:20 / /home/a\040b/p/empty ro - tmpfs tmpfs rw
broken
25 21 x:y / /proc rw - proc proc rw
`

func TestView(t *testing.T) {
	v := view{mounts: mountsOf(mountinfo)}
	if len(v.mounts) != 4 {
		t.Fatalf("%d mounts: %+v", len(v.mounts), v.mounts)
	}
	for _, c := range []struct {
		dev        uint32
		name, want string
	}{
		{254 << 20, "/usr/bin/git", "/usr/bin/git"},
		{254 << 20, "/home/a b/p/x", "/home/a b/p/x"},
		{254 << 20, "/home/other", "/home/other"}, // shown by no mount: as the file system has it
		{19, "/x", "/x"},
		{20, "/file", "/home/a b/p/empty/file"},
	} {
		if got, _ := v.shown(c.dev, c.name); got != c.want {
			t.Errorf("%s of %d is shown as %s, want %s", c.name, c.dev, got, c.want)
		}
	}
	if got := v.below("/home/a b"); !slices.Equal(got, []string{"/home/a b/p", "/home/a b/p/empty"}) {
		t.Errorf("below: %q", got)
	}
	if got := v.below("/home/a b/p"); !slices.Equal(got, []string{"/home/a b/p/empty"}) {
		t.Errorf("below the mount: %q", got)
	}
	if got := v.below("/home/a"); got != nil {
		t.Errorf("below a folder whose name begins alike: %q", got)
	}
}

func TestDecode(t *testing.T) {
	s := &Session{held: map[uint64]*object{7: {path: "/p/secret"}}, view: view{mounts: mountsOf(mountinfo)}}
	raw := func(e objectsEvent, names string) []byte {
		e.Length = uint32(copy(e.Names[:], names))
		copy(e.Comm[:], "cat\x00rest")
		text, err := binary.Append(nil, binary.NativeEndian, e)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	labelled := raw(objectsEvent{Label: 7, Below: 2, Tgid: 5, Op: 1, Need: 1, Why: 1}, "key\x00deep\x00secret\x00p\x00")
	e, _, err := s.decode(labelled)
	if err != nil {
		t.Fatal(err)
	}
	e.When = e.When.UTC().Truncate(0)
	if diff := cmp.Diff(Event{When: e.When, PID: 5, Program: "cat", Op: Opened, Need: Read, Why: Forbidden, Path: "/p/secret/deep/key",
		Rule: "/p/secret"}, e); diff != "" {
		t.Error(diff)
	}
	e, _, err = s.decode(raw(objectsEvent{Dev: 254 << 20, Op: 7, Need: 4}, "git\x00bin\x00usr\x00"))
	if err != nil || e.Path != "/usr/bin/git" || e.Rule != "" || e.Op != Executed {
		t.Errorf("%+v, %v", e, err)
	}
	if e, _, err := s.decode(labelled[:40]); err == nil {
		t.Errorf("half an event is %+v", e)
	}
	s.proof.Ino, s.proof.Dev = 9, unix.Mkdev(0, 1)
	if _, own, err := s.decode(raw(objectsEvent{Ino: 9, Dev: 1}, "")); !own || err != nil {
		t.Errorf("an event of the canary: %t, %v", own, err)
	}
	long := raw(objectsEvent{}, "")
	binary.NativeEndian.PutUint32(long[32:], 769)
	if e, _, err := s.decode(long); err == nil {
		t.Errorf("more names than there is room for are %+v", e)
	}
}

// object finds what a path leads to, and the folder that really has it.
func TestObject(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"real/deep", "other"} {
		if err := os.MkdirAll(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/real/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "real", "other/up": "../real/file", "other/abs": "/real/file", "loop": "loop", "gone": "none"} {
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	v := view{root: root}
	for _, c := range []struct {
		name, file, parent string
		err                error
	}{
		{"/real/file", "real/file", "real", nil},
		{"/link/file", "real/file", "real", nil},
		{"/other/up", "real/file", "real", nil},
		{"/other/abs", "real/file", "real", nil},
		{"/link", "real", ".", nil},
		{"/", ".", ".", nil},
		{"/loop", "", "", unix.ELOOP},
		{"/gone", "", "", unix.ENOENT},
		{"/real/file/x", "", "", unix.ENOTDIR},
		{"/none/x", "", "", unix.ENOENT},
	} {
		file, parent, err := v.object(c.name)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if err != nil {
			continue
		}
		for what, pair := range map[string][2]string{"file": {file.Name(), c.file}, "parent": {parent.Name(), c.parent}} {
			f := map[string]*os.File{"file": file, "parent": parent}[what]
			got, err1 := f.Stat()
			want, err2 := os.Stat(dir + "/" + pair[1])
			if err1 != nil || err2 != nil || !os.SameFile(got, want) {
				t.Errorf("%s: the %s is not %s: %v, %v", c.name, what, pair[1], err1, err2)
			}
		}
		file.Close()
		parent.Close()
	}
}

// A kernel that refuses says so, and nothing of the attempt stays. Where it does not, the
// programs judge.
func TestOpen(t *testing.T) {
	k, err := Open()
	if unsupported, ok := errors.AsType[*Unsupported](err); ok {
		if unsupported.Fix == "" || unsupported.Reason == "" {
			t.Errorf("it does not say what would change that: %+v", unsupported)
		}
		if left, err := os.ReadDir(Pins); err == nil && slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == pinName() }) {
			t.Error("pins are left")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}
