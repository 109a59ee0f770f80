package corpus

import (
	"os"
	"path/filepath"
	"slices"

	"cloister/escape"
)

func fs27a() escape.Case {
	return escape.Case{
		ID: "FS-27a", Class: "devices that are there", Attack: "look for any device, terminal of another or shared memory beyond the list of seven",
		Source: "HARDENING 5.1 (minimal /dev)", Layers: []string{"view"},
		Except: map[escape.Column]string{escape.GVisor: "devices are gVisor's own, and none is the host's"},
		Tries: func(in escape.Inside) []escape.Try {
			none := func(found []string, err error) error {
				if err == nil && len(found) == 0 {
					return escape.ErrNothing
				}
				return err
			}
			return []escape.Try{
				on("anything else in /dev", func() error {
					known := []string{"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd", "stdin", "stdout", "stderr", "mqueue", "console", "core"}
					list, err := os.ReadDir("/dev")
					var other []string
					for _, e := range list {
						if !slices.Contains(known, e.Name()) {
							other = append(other, e.Name())
						}
					}
					if in.Control && err == nil && len(other) == 0 { // the control may be in a container
						return nil
					}
					return none(other, err)
				}),
				{Name: "a device node anywhere else", Control: escape.ByNobody, Why: "a host keeps its devices in /dev", Do: func() error {
					var other []string
					left := 50_000 // without a view it is the whole host
					err := filepath.WalkDir("/", func(path string, d os.DirEntry, err error) error {
						left--
						switch {
						case left < 0:
							return filepath.SkipAll
						case err != nil:
							return nil // what cannot be read cannot be opened
						case path == "/proc" || path == "/dev" || path == "/usr" || path == "/sys":
							return filepath.SkipDir
						case d.Type()&os.ModeDevice != 0:
							// A covered file of the host's is this one.
							if other = append(other, path); d.Type()&os.ModeCharDevice != 0 && isNull(path) {
								other = other[:len(other)-1]
							}
						}
						return nil
					})
					return none(other, err)
				}},
				{Name: "the terminal of another", Control: escape.ByNobody, Why: "the control has perhaps none", Do: func() error {
					list, err := filepath.Glob("/dev/pts/[0-9]*")
					return none(list, err)
				}},
			}
		},
	}
}

// isNull tells the device that swallows everything.
func isNull(path string) bool {
	a, aerr := os.Stat(path)
	b, berr := os.Stat("/dev/null")
	return aerr == nil && berr == nil && os.SameFile(a, b)
}
