#include "textflag.h"

#define SYS_clone3 435
#define SYS_exit_group 231

// func cloneAndCall(args *arguments, size uintptr, calls *call, n uintptr) (pid, errno uintptr)
//
// In the new process only registers are used: the memory, stack included, is
// its parent's, which goes on meanwhile.
TEXT ·cloneAndCall(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	calls+16(FP), R12
	MOVQ	n+24(FP), R13
	MOVQ	$SYS_clone3, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	next
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET

next:
	TESTQ	R13, R13
	JZ	end
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	CMPQ	AX, $-4095
	JCC	refused
	ADDQ	$64, R12
	DECQ	R13
	JMP	next
refused:
	NEGQ	AX
	MOVQ	AX, 56(R12)
end:
	MOVQ	$127, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	JMP	end
