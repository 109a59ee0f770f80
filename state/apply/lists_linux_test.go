package apply_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/acl"
	"cloister/state/apply"
)

// list is an access list: what the owner, user 4321, the group, the mask and others may.
func list(owner, other, group, mask, world uint16) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, may uint16
		id       uint32
	}{{1, owner, ^uint32(0)}, {2, other, 4321}, {4, group, ^uint32(0)}, {0x10, mask, ^uint32(0)}, {0x20, world, ^uint32(0)}} {
		out = binary.LittleEndian.AppendUint16(out, e.tag)
		out = binary.LittleEndian.AppendUint16(out, e.may)
		out = binary.LittleEndian.AppendUint32(out, e.id)
	}
	return out
}

const accessList, defaultList = "system.posix_acl_access", "system.posix_acl_default"

// reach is who may do what with an entry: its mode, and its lists.
func reach(t *testing.T, top, name string) string {
	t.Helper()
	at := filepath.Join(top, name)
	fi, err := os.Lstat(at)
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%o", fi.Mode().Perm())
	for _, which := range []string{accessList, defaultList} {
		value := make([]byte, 256)
		n, err := unix.Lgetxattr(at, which, value)
		if err == nil {
			out += " " + describe(value[:n])
		} else if !errors.Is(err, unix.ENODATA) {
			t.Fatal(err)
		}
	}
	return out
}

func describe(list []byte) (out string) {
	for e := range slices.Chunk(list[4:], 8) {
		out += fmt.Sprintf("%x:%o ", binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]))
	}
	return "[" + out[:len(out)-1] + "]"
}

// allow gives an entry of a folder a list.
func allow(t *testing.T, top, name, which string, list []byte) {
	t.Helper()
	if err := unix.Lsetxattr(filepath.Join(top, name), which, list, 0); err != nil {
		t.Fatal(err)
	}
}

// What a command lets others do by access lists, nobody may do on the host; what the person lets
// them do they still may, no more and no less, after an apply and after an undo of it.
func TestAccessLists(t *testing.T) {
	project, layer, journals := t.TempDir(), t.TempDir(), t.TempDir()
	shared, masked := list(6, 6, 0, 6, 0), list(6, 6, 0, 4, 0)
	for _, name := range []string{"mine", "plain", "moved", "masked", "gone", "folder/in", "ran"} {
		put(t, project, name, "old "+name)
	}
	for name, l := range map[string][]byte{"mine": shared, "moved": shared, "masked": masked, "gone": shared, "ran": shared} {
		allow(t, project, name, accessList, l)
	}
	allow(t, project, "folder", accessList, list(7, 7, 0, 7, 0))
	allow(t, project, "folder", defaultList, list(7, 5, 0, 5, 0))
	before := map[string]string{}
	names := []string{"mine", "plain", "moved", "masked", "gone", "folder", "folder/in", "ran", "to", "new", "made", "made/in"}
	for _, name := range names {
		before[name] = reach(t, project, name)
	}

	evil := list(7, 7, 4, 7, 4)
	put(t, layer, "mine", "new mine")
	put(t, layer, "plain", "new plain")
	put(t, layer, "to", "old moved")
	put(t, layer, "masked", "new masked")
	put(t, layer, "new", "new")
	put(t, layer, "made/in", "in")
	put(t, layer, "ran", "old ran")
	for _, name := range []string{"moved", "gone", "folder"} {
		if err := unix.Mknod(filepath.Join(layer, name), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"plain", "masked", "new", "made", "made/in"} {
		allow(t, layer, name, accessList, evil)
	}
	allow(t, layer, "made", defaultList, evil)
	for _, name := range []string{"mine", "to"} { // as overlayfs copies it
		allow(t, layer, name, accessList, shared)
	}
	allow(t, layer, "ran", accessList, list(7, 7, 7, 7, 5))
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(project, "ran"), &st)
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(layer, "ran"), []unix.Timespec{st.Mtim, st.Mtim}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}

	s, changed := changes(t, project, layer)
	j, err := apply.Start(journals, project, "", stepsOf(t, s, changed))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mine":    before["mine"],                // the person's, as it was
		"to":      before["moved"],               // moved with its file
		"masked":  "744 [1:7 2:6 4:0 10:4 20:4]", // its owner and others as chmod gives it, the mask as it was
		"plain":   "744",                         // what its group may, not the mask
		"new":     "744",
		"made":    "744",
		"made/in": "744",
		"ran":     "765 [1:7 2:6 4:0 10:6 20:5]", // a mode, as chmod gives it, and the mask not widened
		"moved":   "none", "gone": "none", "folder": "none",
	} {
		if is := reach(t, project, name); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
	// What differs still is shown, and is not brought over by saying it again.
	s, changed = changes(t, project, layer)
	again, err := apply.Start(journals, project, "", stepsOf(t, s, changed))
	if err != nil {
		t.Fatal(err)
	}
	if is := reach(t, project, "new") + reach(t, project, "made"); is != "744744" {
		t.Errorf("the second apply: %s", is)
	}
	for _, j := range []*apply.Journal{again, j} {
		list, err := apply.List(journals, project)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(l *apply.Journal) bool { return l.ID == j.ID })
		if _, err := list[i].Undo(journals); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if is := reach(t, project, name); is != before[name] {
			t.Errorf("undone: %s: %s, was %s", name, is, before[name])
		}
	}
	// The control: the lists lie in the layer, and a copy of it would carry them over.
	if is := reach(t, layer, "new"); is != "774 [1:7 2:7 4:4 10:7 20:4]" {
		t.Errorf("control: %s", is)
	}
}

// In a folder that says what new entries in it get, an apply gives a file no more than it had.
func TestDefaultLists(t *testing.T) {
	project, layer := t.TempDir(), t.TempDir()
	put(t, project, "d/secret", "old")
	if err := os.Chmod(filepath.Join(project, "d/secret"), 0o640); err != nil {
		t.Fatal(err)
	}
	allow(t, project, ".", defaultList, list(7, 7, 5, 7, 5))
	allow(t, project, "d", defaultList, list(7, 7, 5, 7, 5))
	put(t, layer, "d/secret", "new")
	put(t, layer, "made/in", "in")
	if err := os.Chmod(filepath.Join(layer, "d/secret"), 0o640); err != nil {
		t.Fatal(err)
	}
	// Journals on another file system: then what is new is staged in the project.
	for _, journals := range []string{t.TempDir(), newArena(t).journals} {
		s, changed := changes(t, project, layer)
		j, err := apply.Start(journals, project, "", stepsOf(t, s, changed))
		if err != nil {
			t.Fatal(err)
		}
		if is := reach(t, project, "d/secret"); is != "640" {
			t.Errorf("%s: %s", journals, is)
		}
		if is := reach(t, project, "made"); is != "755 [1:7 2:7 4:5 10:5 20:5] [1:7 2:7 4:5 10:7 20:5]" {
			t.Errorf("a new folder, as mkdir makes it: %s", is)
		}
		if _, err := j.Undo(journals); err != nil {
			t.Fatal(err)
		}
		if is := reach(t, project, "d/secret"); is != "640" {
			t.Errorf("undone: %s", is)
		}
	}
}

func TestGroupOfList(t *testing.T) {
	for name, c := range map[string]struct {
		list []byte
		bits uint32
		ok   bool
	}{
		"none":            {nil, 0, false},
		"too short":       {[]byte{2, 0}, 0, false},
		"another version": {append([]byte{3, 0, 0, 0}, list(7, 7, 7, 7, 7)[4:]...), 0, false},
		"cut off":         {list(7, 7, 7, 7, 7)[:17], 0, true},
		"its group":       {list(7, 7, 5, 7, 0), 0o050, true},
	} {
		bits, ok := (&acl.Lists{Access: c.list}).Group()
		if bits != c.bits || ok != c.ok {
			t.Errorf("%s: %o, %t", name, bits, ok)
		}
	}
	var none *acl.Lists
	if _, ok := none.Group(); ok {
		t.Error("nil has a list")
	}
}
