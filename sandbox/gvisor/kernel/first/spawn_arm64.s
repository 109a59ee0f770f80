//go:build linux

#include "textflag.h"

// func rawSpawn(flags, stack, entry uintptr, p *program) uintptr
//
// clone(2) with a stack of its own, on which the child calls entry(p), with its argument in
// R0 by Go's internal ABI. See spawn_amd64.s.
TEXT ·rawSpawn(SB), NOSPLIT, $0-40
	MOVD flags+0(FP), R0
	MOVD stack+8(FP), R1
	MOVD entry+16(FP), R12
	MOVD p+24(FP), R10
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $220, R8 // SYS_clone
	SVC
	CBNZ R0, parent
	MOVD R10, R0
	CALL (R12)
	BRK

parent:
	MOVD R0, ret+32(FP)
	RET
