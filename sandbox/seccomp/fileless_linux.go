package seccomp

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Fileless is a filter besides Filter's for a payload of which a list says what it may
// execute: no memory is a file, since Landlock asks about no such file. Programs that can do
// without go on (ENOSYS).
func Fileless() []unix.SockFilter {
	prog, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offNR, Size: 4}, // of another architecture Filter lets no call pass
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_MEMFD_CREATE, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_MEMFD_SECRET, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	})
	if err != nil {
		panic(err) // of a text that is written here
	}
	out := make([]unix.SockFilter, len(prog))
	for i, r := range prog {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out
}
