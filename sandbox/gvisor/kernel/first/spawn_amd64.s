//go:build linux

#include "textflag.h"

// func rawSpawn(flags, stack, entry uintptr, p *program) uintptr
//
// clone(2) with a stack of its own, on which the child calls entry(p): a Go function, whose
// argument goes in AX and for which X15 is zero, by Go's internal ABI.
TEXT ·rawSpawn(SB), NOSPLIT, $0-40
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ entry+16(FP), R9
	MOVQ p+24(FP), R12
	MOVQ $0, DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ $56, AX // SYS_clone
	SYSCALL
	TESTQ AX, AX
	JNE  parent
	MOVQ R12, AX
	XORPS X15, X15
	CALL R9
	INT  $3

parent:
	MOVQ AX, ret+32(FP)
	RET
