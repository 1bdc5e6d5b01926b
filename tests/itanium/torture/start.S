/* SPDX-License-Identifier: MIT */
/* Where a program begins on the bare machine: physical mode, stacks of its own. It ends by EFI's reset service. */
	.text
	.global _start
	.proc _start
_start:
	mov ar.rsc = 0
	movl r2 = registers
	;;
	mov ar.bspstore = r2
	movl r12 = stack_end - 16
	movl gp = __gp
	;;
	mov ar.rsc = 3
	movl r3 = 0x9804c0270033f	/* what Linux has, too */
	;;
	mov ar.fpsr = r3
	alloc r2 = ar.pfs, 0, 0, 3, 0
	;;
	mov r32 = 0
	mov r33 = 0
	mov r34 = 0
	br.call.sptk.many b0 = main
	;;
	mov r32 = r8
	br.call.sptk.many b0 = exit
	.endp _start

	/* void reset(long kind, long status): the service's code is where hypervisor/itanium/platform/src/efi.rs says */
	.global reset
	.proc reset
reset:
	movl r2 = 0xe0000011a00
	;;
	mov b6 = r2
	br.cond.sptk.many b6
	.endp reset

	.bss
	.align 16384
registers:
	.skip 0x100000
	.skip 0x200000
stack_end:
