package listed

import (
	"fmt"
	"os"
	"syscall"

	"cloister/escape"
)

// asked are files about which a person is asked who is not there.
func asked() escape.Case {
	return escape.Case{
		ID: "FS-03d", Class: "files that are asked about", Attack: "a file about which a person would be asked, and nobody is: read and written by other names, links, descriptors and places, moved, and by a link that is swapped while the call waits",
		Source: "Cedar's ask", Layers: []string{"view", "listener"}, Except: elsewhere(),
		Prepare: prepareClosed, Flags: under("asked.cedar", func(_ *escape.World, l world) string {
			return fmt.Sprintf("@ask permit (principal, action == Action::\"FileOpen\", resource) when { resource in [File::%q, File::%q] };\n", l.secret, l.base+"/shut/secret")
		}),
		Tries: func(in escape.Inside) []escape.Try {
			l := closedOutside(in)
			var out []escape.Try
			for name, do := range texts(l) {
				out = append(out, closedTo("read "+name, l.open, l.secret, do))
			}
			for name, do := range writing() {
				out = append(out, closedTo("write "+name, l.out+"/kept", l.base+"/shut/secret", do))
			}
			for name, do := range moving(l) {
				out = append(out, closedTo("move "+name, l.out+"/kept", l.secret, do))
			}
			out = append(out, closedTo("move its folder", l.out+"/folder", l.base+"/shut", func(p string) error { return carried(p, l.out+"/carried") }),
				closedTo("move a folder above it", l.out+"/folder", l.base, func(p string) error {
					to := l.base + "-elsewhere"
					if p != l.base {
						to = l.out + "/elsewhere"
					}
					if err := os.Rename(p, to); err != nil {
						return err
					}
					return os.Rename(to, p)
				}))
			return append(out, escape.Try{Name: "a link that is swapped", Do: func() error { return swapped(l) }, Held: []error{syscall.EACCES, escape.ErrNothing}})
		},
	}
}
