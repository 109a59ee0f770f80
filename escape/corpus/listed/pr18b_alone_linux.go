package listed

import (
	"syscall"

	"cloister/escape"
)

// programsAlone has every file open, so that a program is written wherever that is possible.
func programsAlone() escape.Case {
	return escape.Case{
		ID: "PR-18b", Class: "list of programs alone", Attack: "under a list of what may be executed, all files open: a program written into every folder that is writable inside, and executed there by name, descriptor and after its name is gone",
		Source: "KubeArmor and Leash bypasses", Layers: []string{"landlock"}, Except: elsewhere(),
		Prepare: prepare, Flags: under("alone.cedar", executes),
		Tries: func(in escape.Inside) []escape.Try {
			l := outside(in)
			var out []escape.Try
			for _, dir := range []string{"/tmp", "/dev/shm", in.Project, l.out} {
				out = append(out, written(in.Self, dir)...)
			}
			return append(out, escape.Try{Name: "memory", Do: func() error { return memory(in.Self) }, Held: []error{syscall.ENOSYS}})
		},
	}
}
