#include "textflag.h"

#define SYS_clone3 435
#define SYS_exit_group 94

// func cloneAndCall(args *arguments, size uintptr, calls *call, n uintptr) (pid, errno uintptr)
//
// In the new process only registers are used: the memory, stack included, is
// its parent's, which goes on meanwhile.
TEXT ·cloneAndCall(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	calls+16(FP), R9
	MOVD	n+24(FP), R10
	MOVD	$SYS_clone3, R8
	SVC
	CBZ	R0, next
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET

next:
	CBZ	R10, end
	MOVD	0(R9), R8
	MOVD	8(R9), R0
	MOVD	16(R9), R1
	MOVD	24(R9), R2
	MOVD	32(R9), R3
	MOVD	40(R9), R4
	MOVD	48(R9), R5
	SVC
	CMN	$4095, R0
	BCS	refused
	ADD	$64, R9
	SUB	$1, R10
	B	next
refused:
	NEG	R0, R0
	MOVD	R0, 56(R9)
end:
	MOVD	$127, R0
	MOVD	$SYS_exit_group, R8
	SVC
	B	end
