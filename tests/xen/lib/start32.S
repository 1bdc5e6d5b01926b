/* SPDX-License-Identifier: MIT */
/*
 * As start.S, but the guest stays in 32 bits, with PAE: four l2 tables of leaves that map 4 GiB to themselves, of which
 * the third is the window's.
 */
#define PAE	(1 << 5)
#define NX	(1 << 11)
#define PG_WP_PE ((1 << 31) | (1 << 16) | 1)
#define EFER	0xc0000080

	.section .note.Xen, "a", @note
	.balign 4
	.long 4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.long entry

	.text
	.globl entry
entry:
	cld
	mov $stack_end, %esp

	/* l2: 2048 leaves, present, writable, accessed, dirty */
	mov $0xe3, %eax
	mov $l2_identity, %edi
	mov $2048, %ecx
1:	mov %eax, (%edi)
	movl $0, 4(%edi)
	add $0x200000, %eax
	add $8, %edi
	loop 1b

	/* Of what names an l2 table only the present bit is not reserved. */
	mov $l2_identity + 1, %eax
	mov $top_table, %edi
	mov $4, %ecx
2:	mov %eax, (%edi)
	add $0x1000, %eax
	add $8, %edi
	loop 2b

	mov $PAE, %eax
	mov %eax, %cr4
	mov $top_table, %eax
	mov %eax, %cr3
	mov $EFER, %ecx
	rdmsr
	or $NX, %eax
	wrmsr
	mov $PG_WP_PE, %eax
	mov %eax, %cr0
	lgdt gdt_pointer
	ljmp $8, $paged
paged:
	mov $16, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	xor %eax, %eax
	mov %eax, %fs
	mov %eax, %gs
	/* hvm_start_info */
	push %ebx
	call lib_main
1:	hlt
	jmp 1b

	/* One stub a vector: an error code of 0 where the processor pushes none. */
	.macro stub n
	.balign 16
	.if \n != 8 && (\n < 10 || \n > 14) && \n != 17
	push $0
	.endif
	push $\n
	jmp exception
	.endm
	.globl stubs
	.balign 16
stubs:
	.set n, 0
	.rept 32
	stub n
	.set n, n + 1
	.endr

	/* on_exception(frame) returns where to go on; registers stay as they were but for eax, the error code. */
exception:
	push %edx
	push %ecx
	lea 8(%esp), %eax
	push %eax
	call on_exception
	add $4, %esp
	pop %ecx
	pop %edx
	add $8, %esp
	iret

	/* Each returns -1, or the error code of the page fault that it met, as eax is then. Of a value both halves. */
	.globl try_read, try_write, try_jump
try_read:			/* (address: 8 bytes, where to) */
	mov 4(%esp), %ecx
	mov (%ecx), %eax
	mov 4(%ecx), %edx
	mov 12(%esp), %ecx
	mov %eax, (%ecx)
	mov %edx, 4(%ecx)
	mov $-1, %eax
try_read_end:
	ret
try_write:			/* (address: 8 bytes, value) */
	mov 4(%esp), %ecx
	mov 12(%esp), %eax
	mov 16(%esp), %edx
	mov %eax, (%ecx)
	mov %edx, 4(%ecx)
	mov $-1, %eax
try_write_end:
	ret
try_jump:			/* (address of a ret: 8 bytes) */
	mov 4(%esp), %ecx
	call *%ecx
	mov $-1, %eax
try_jump_end:
	ret
try_jump_fault:			/* where it called does not run: its return is still to be had */
	add $4, %esp
	ret
	.globl try_read_end, try_write_end, try_jump_end, try_jump_fault

	.data
	.balign 8
gdt:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
	.globl gdt_pointer
gdt_pointer:
	.word . - gdt - 1
	.long gdt

	.bss
	.balign 4096
	.globl top_table, l2_identity, hypercall_page
top_table:	.skip 4096
l2_identity:	.skip 4 * 4096
hypercall_page:	.skip 4096
stack:		.skip 4 * 4096
stack_end:
	.section .note.GNU-stack, "", @progbits
