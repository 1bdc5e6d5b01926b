/* SPDX-License-Identifier: MIT */
/* Where a program without a C library begins, and how it calls the kernel: arguments are the frame's registers. */
	.text
	.global _start
	.proc _start
_start:
	alloc r2 = ar.pfs, 0, 0, 1, 0
	movl gp = __gp
	;;
	adds r32 = 16, r12
	br.call.sptk.many b0 = main
	;;
	mov r32 = r8
	mov r15 = 1025		/* exit */
	break.i 0x100000
	.endp _start

	/* long call(long a, long b, long c, long d, long e, long f, long number) */
	.global call
	.proc call
call:
	mov r15 = r38
	break.i 0x100000
	;;
	cmp.eq p6, p0 = -1, r10
	;;
(p6)	sub r8 = 0, r8
	br.ret.sptk.many b0
	.endp call
