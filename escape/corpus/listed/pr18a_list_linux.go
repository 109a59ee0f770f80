package listed

import (
	"syscall"

	"cloister/escape"
)

func programs() escape.Case {
	return escape.Case{
		ID: "PR-18a", Class: "list of programs", Attack: "under lists of what may be opened and executed: a copy of a permitted program by other names, descriptors, links, a script's first line, memory, a file without a name",
		Source: "KubeArmor and Leash bypasses", Layers: []string{"landlock"}, Except: elsewhere(),
		Prepare: prepare,
		Flags:   under("programs.cedar", func(w *escape.World, l world) string { return opens(w, l) + executes(w, l) }),
		Tries: func(in escape.Inside) []escape.Try {
			l := outside(in)
			var out []escape.Try
			for name, do := range executing(l) {
				out = append(out, twice("execute "+name, in.Self, l.copied, do))
			}
			out = append(out, written(in.Self, l.out)...)
			return append(out,
				escape.Try{Name: "a script's first line", Do: func() error { return start(l.base + "/script") }, Held: []error{syscall.EACCES}},
				escape.Try{Name: "memory", Do: func() error { return memory(in.Self) }, Held: []error{syscall.ENOSYS}})
		},
	}
}
