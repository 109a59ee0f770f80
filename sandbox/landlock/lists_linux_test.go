package landlock_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/landlock"
)

// What a list grants is never more than the view without lists, and of what it speaks nothing
// but what it names.
func TestLists(t *testing.T) {
	const read, write, exec = unix.LANDLOCK_ACCESS_FS_READ_FILE, unix.LANDLOCK_ACCESS_FS_WRITE_FILE, unix.LANDLOCK_ACCESS_FS_EXECUTE
	for _, p := range []sandbox.Permits{
		{Opens: true}, {Programs: true},
		{Opens: true, Programs: true, List: []sandbox.Permit{
			{Path: "/usr", Dir: true, Read: true}, {Path: "/w/a", Read: true, Write: true}, {Path: "/w/out", Dir: true, Read: true, Write: true},
			{Path: "/ro/x", Read: true, Write: true}, {Path: "/bin/x", Exec: true},
		}},
		{Opens: true, List: []sandbox.Permit{{Path: "/", Dir: true, Read: true, Write: true}, {Path: "/", Dir: true, Exec: true}}},
	} {
		for abi := landlock.Least; abi <= 8; abi++ {
			all := landlock.Handled(abi)
			rules := map[string]uint64{}
			for _, r := range landlock.Lists(abi, []string{"/tmp", "/w"}, p) {
				if r.Rights == 0 || r.Rights&^all != 0 {
					t.Errorf("ABI %d: %s grants %#x of %#x", abi, r.Path, r.Rights, all)
				}
				if r.Rights&(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK) != 0 {
					t.Errorf("ABI %d: devices can be made in %s", abi, r.Path)
				}
				file := r.Named == landlock.File
				if file && r.Rights&^(read|write|exec|unix.LANDLOCK_ACCESS_FS_TRUNCATE) != 0 {
					t.Errorf("ABI %d: a file is given rights of a folder: %#x", abi, r.Rights)
				}
				if listed := r.Named == landlock.File || r.Named == landlock.Dir; listed && r.NoLinks != (r.Path != "/usr" && r.Path != "/bin/x") {
					t.Errorf("links on the way to %s are not followed: %t", r.Path, r.NoLinks)
				}
				rules[r.Path] |= r.Rights
			}
			everything := len(p.List) == 2
			for at, want := range map[string]map[uint64]bool{
				"/":       {read: !p.Opens || everything, exec: !p.Programs, write: false, unix.LANDLOCK_ACCESS_FS_READ_DIR: true},
				"/tmp":    {write: !p.Opens || everything, exec: false},
				"/w":      {write: !p.Opens || everything, exec: false},
				"/w/a":    {read: len(p.List) == 5, write: len(p.List) == 5},
				"/w/out":  {write: len(p.List) == 5, unix.LANDLOCK_ACCESS_FS_MAKE_REG: len(p.List) == 5},
				"/ro/x":   {read: len(p.List) == 5, write: false},
				"/bin/x":  {read: len(p.List) == 5, exec: len(p.List) == 5},
				"/usr":    {read: len(p.List) == 5, exec: false, write: false},
				"/dev":    {read: true, write: true, exec: false},
				"/absent": {read: false},
			} {
				for right, granted := range want {
					if got := rules[at]&right != 0; got != granted {
						t.Errorf("ABI %d, %+v: %#x at %s: %t, want %t", abi, p, right, at, got, granted)
					}
				}
			}
		}
	}
	if len(landlock.Lists(6, []string{"/w"}, sandbox.Permits{})) != len(landlock.Rules(6, []string{"/w"})) {
		t.Error("without lists there are other rules")
	}
}
