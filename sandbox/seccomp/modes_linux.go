package seccomp

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Modes is what Filter says of files' modes, alone: for a program that serves a payload's files
// and needs calls that Filter refuses. The calls of nothing do nothing, and succeed.
func Modes(nothing ...uint32) ([]unix.SockFilter, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: answerKill},
		bpf.LoadAbsolute{Off: offNR, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x40000000, SkipTrue: 1},
		bpf.RetConstant{Val: answerNosys},
	}
	// Their modes lie in memory, which a filter cannot see.
	for _, nr := range []uint32{unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP} {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1}, bpf.RetConstant{Val: answerNosys})
	}
	for _, nr := range nothing {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1},
			bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO})
	}
	for _, m := range modeCalls {
		body := m.rules()
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: m.NR, SkipFalse: uint8(len(body))})
		prog = append(prog, body...)
	}
	raw, err := bpf.Assemble(append(prog, bpf.RetConstant{Val: answerAllow}))
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
