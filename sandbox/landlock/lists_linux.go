package landlock

import (
	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// Lists are the rules of a box of which only some files may be opened, or programs executed.
// Listing folders stays allowed everywhere: what lies in them is seen by other calls too,
// which Landlock does not know. A file is written only where it is in a writable place as
// well, and what may be executed may be read. A permitted path that is not there grants nothing.
func Lists(abi int, writable []string, p sandbox.Permits) []Rule {
	if !p.Any() {
		return Rules(abi, writable)
	}
	all := Handled(abi)
	common := uint64(unix.LANDLOCK_ACCESS_FS_READ_DIR)
	if !p.Opens {
		common |= reads
	}
	if !p.Programs {
		common |= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	changes := all &^ (neverRights | unix.LANDLOCK_ACCESS_FS_EXECUTE)
	out := []Rule{
		{Path: "/", Rights: common & all},
		{Path: "/dev", Rights: devRights & all},
		{Path: "/proc", Rights: reads & all},
		{Path: "/.cloister", Rights: (reads | unix.LANDLOCK_ACCESS_FS_EXECUTE) & all, Named: Absent},
	}
	if !p.Opens {
		for _, w := range writable {
			out = append(out, Rule{Path: w, Rights: changes})
		}
	}
	for _, one := range p.List {
		at := string(one.Path)
		var rights uint64
		if one.Read && p.Opens {
			rights |= reads
		}
		if one.Exec && p.Programs {
			// The kernel reads what it executes, and Landlock asks for both.
			rights |= (reads | unix.LANDLOCK_ACCESS_FS_EXECUTE) & all &^ common
		}
		r := Rule{Path: at, Rights: rights, Named: File, NoLinks: !sandbox.Led(one.Path)}
		if one.Dir {
			r.Named = Dir
		}
		for _, w := range writable {
			switch {
			case !realpath.Inside(at, w):
				if one.Dir && one.Write && p.Opens && realpath.Inside(w, at) {
					out = append(out, Rule{Path: w, Rights: changes})
				}
				continue
			case one.Write && p.Opens && one.Dir:
				r.Rights |= changes
			case one.Write && p.Opens:
				r.Rights |= writes & all
			}
			r.NoLinks = true // whoever may write there could have put one there
		}
		if r.Rights != 0 {
			out = append(out, r)
		}
	}
	return out
}
