package listed

import (
	"syscall"

	"cloister/escape"
)

func files() escape.Case {
	return escape.Case{
		ID: "FS-03a", Class: "list of files", Attack: "under a list of what may be opened: another file by other names, links, renames, exchanges, O_PATH, /proc, another process; names made where none may be",
		Source: "KubeArmor and Leash bypasses", Layers: []string{"landlock"}, Except: elsewhere(),
		Prepare: prepare, Flags: under("files.cedar", opens),
		Tries: func(in escape.Inside) []escape.Try {
			l := outside(in)
			var out []escape.Try
			for name, do := range reading(l) {
				out = append(out, twice("read "+name, l.open, l.secret, do))
			}
			for name, do := range writing() {
				out = append(out, twice("write "+name, l.out+"/kept", l.secret, do))
			}
			for name, do := range making() {
				out = append(out, twice("make "+name, l.out, l.base, do))
			}
			for name, do := range moving(l) {
				out = append(out, twice("move "+name, l.out+"/kept", l.secret, do, syscall.EXDEV))
			}
			return out
		},
	}
}
