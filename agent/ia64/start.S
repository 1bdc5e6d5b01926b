/* SPDX-License-Identifier: MIT */
/* Where a program on the Itanium machine begins, and how it calls the kernel: arguments are the frame's registers. */
	.text
	.global _start
	.proc _start
_start:
	alloc r2 = ar.pfs, 0, 0, 2, 0
	movl gp = __gp
	adds r3 = 16, r12
	;;
	ld8 r32 = [r3]		/* argc; argv is behind it */
	adds r33 = 24, r12
	br.call.sptk.many b0 = main
	;;
	mov r32 = r8
	br.call.sptk.many b0 = exit
	.endp _start

	/* long call(long a, long b, long c, long d, long e, long f, long number): negative is an error */
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
