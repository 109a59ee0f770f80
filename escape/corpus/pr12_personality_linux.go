package corpus

import (
	"fmt"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr12() escape.Case {
	return escape.Case{
		ID: "PR-12", Class: "personality", Attack: "personalities that make memory executable or addresses predictable",
		Source: "HARDENING 5.1", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			var list []call
			for _, p := range []uintptr{0x0040000, 0x0100000, 0x0200000, 0x0400000, 0x0800000, 0x1000000, 0x8000000, 0x0001, 0x0400008} {
				list = append(list, call{name: fmt.Sprintf("personality %#x", p), nr: unix.SYS_PERSONALITY, args: []uintptr{p}})
			}
			return calls(list...)
		},
	}
}
