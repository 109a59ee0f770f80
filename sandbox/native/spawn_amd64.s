//go:build linux

#include "textflag.h"

// func rawSpawn(flags, stack, entry uintptr, p *program, st *childState) uintptr
//
// clone(2) with a stack of its own, on which the child calls entry(p, st). The
// entry is a Go function: its arguments go in AX and BX and X15 is zero, by
// Go's internal ABI. Calling it by name would go through a wrapper that the race
// detector instruments, and the child must not call the detector.
TEXT ·rawSpawn(SB), NOSPLIT, $0-48
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ entry+16(FP), R9
	MOVQ p+24(FP), R12
	MOVQ st+32(FP), R13
	MOVQ $0, DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ $56, AX // SYS_clone
	SYSCALL
	TESTQ AX, AX
	JNE  parent
	MOVQ R12, AX
	MOVQ R13, BX
	XORPS X15, X15
	CALL R9
	INT  $3

parent:
	MOVQ AX, ret+40(FP)
	RET
