package localuser

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"cloister/sandbox"
)

// check refuses a Spec by which a caller would have root's process name, open or make
// anything but what was passed to it. What it says is for programs that are not Cloister's:
// the driver sends nothing of it.
func check(s sandbox.Spec) error {
	err := refuse(s)
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf("start user: "+format, args...)) }
	if s.ID == "" || len(s.ID) > 64 || strings.Trim(s.ID, idChars) != "" {
		bad("the id %q is none", s.ID) // a control group has it for a name
	}
	if len(s.Argv) == 0 {
		bad("there is no command")
	}
	guest := func(p sandbox.GuestPath) {
		if !path.IsAbs(string(p)) || path.Clean(string(p)) != string(p) {
			bad("%q is no path inside", p)
		}
	}
	guest(s.Dir)
	for _, b := range s.Binds {
		guest(b.Target)
		for _, local := range upperPaths(b) {
			if !filepath.IsLocal(local) {
				bad("%q does not lie in the store of %s", local, b.Target)
			}
		}
	}
	for _, p := range s.Protect {
		guest(p.Target)
		if p.Instead != "" {
			guest(p.Instead)
		}
	}
	for _, f := range s.Files {
		guest(f.Path)
		if f.From != "" || f.Mode&^0o777 != 0 {
			bad("%s is to be copied from the host, or has more than a mode", f.Path)
		}
	}
	for _, l := range s.Links {
		guest(l.Path)
	}
	return err
}

const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// upperPaths are the folders of a bind's overlay, in its store.
func upperPaths(b sandbox.Bind) []string {
	if b.Upper == nil {
		return nil
	}
	return append([]string{b.Upper.Dir, b.Upper.Work}, b.Upper.Lower...)
}
