/* SPDX-License-Identifier: MIT */
/* Where a program begins under Linux, with the arguments that start.S gives; and how it ends there. */
	.text
	.global _start
	.proc _start
_start:
	alloc r2 = ar.pfs, 0, 0, 3, 0
	movl gp = __gp
	;;
	mov r32 = 0
	mov r33 = 0
	mov r34 = 0
	br.call.sptk.many b0 = main
	;;
	mov r32 = r8
	br.call.sptk.many b0 = exit
	.endp _start

	/* void reset(long kind, long status) */
	.global reset
	.proc reset
reset:
	alloc r2 = ar.pfs, 2, 0, 1, 0
	mov r15 = 1025		/* exit */
	mov r34 = r33
	;;
	break.i 0x100000
	.endp reset
