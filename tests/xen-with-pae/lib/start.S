/* SPDX-License-Identifier: MIT */
/*
 * PVH entry (Xen's docs/misc/pvh.pandoc): 32 bits, flat, no paging.  The first 4 GiB are mapped to themselves by 2 MiB
 * leaves, then long mode; or 32 bits with the page tables of PAE.
 */
#define PAE	(1 << 5)
#ifdef __x86_64__
#define LME_NX	((1 << 8) | (1 << 11))
#define L3_FLAGS 0x27
#else
#define LME_NX	(1 << 11)
#define L3_FLAGS 1
#endif
#define PG_WP_PE ((1 << 31) | (1 << 16) | 1)
#define EFER	0xc0000080

	.section .note.Xen, "a", @note
	.balign 4
	.long 4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.long entry

	.code32
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

	mov $l2_identity + L3_FLAGS, %eax
	mov $l3_identity, %edi
	mov $4, %ecx
2:	mov %eax, (%edi)
	add $0x1000, %eax
	add $8, %edi
	loop 2b
#ifdef __x86_64__
	movl $l3_identity + 0x27, top_table
#endif

	mov $PAE, %eax
	mov %eax, %cr4
	mov $top_table, %eax
	mov %eax, %cr3
	mov $EFER, %ecx
	rdmsr
	or $LME_NX, %eax
	wrmsr
	mov $PG_WP_PE, %eax
	mov %eax, %cr0
	lgdt gdt_pointer
	ljmp $8, $paged

#ifdef __x86_64__
	.code64
#endif
paged:
	mov $16, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	xor %eax, %eax
	mov %eax, %fs
	mov %eax, %gs
	/* hvm_start_info */
#ifdef __x86_64__
	mov %ebx, %edi
#else
	push %ebx
#endif
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

	/* on_exception(frame) returns where to go on; registers stay as they were but for rax, the error code. */
#ifdef __x86_64__
exception:
	push %rdi
	push %rsi
	push %rdx
	push %rcx
	push %r8
	push %r9
	push %r10
	push %r11
	lea 64(%rsp), %rdi
	call on_exception
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rcx
	pop %rdx
	pop %rsi
	pop %rdi
	add $16, %rsp
	iretq

	/* Each returns -1, or the error code of the page fault that it met, as rax is then. */
	.globl try_read, try_write, try_jump
try_read:			/* (address, where to) */
	mov (%rdi), %rax
	mov %rax, (%rsi)
	mov $-1, %rax
try_read_end:
	ret
try_write:			/* (address, value) */
	mov %rsi, (%rdi)
	mov $-1, %rax
try_write_end:
	ret
try_jump:			/* (address of a ret) */
	call *%rdi
	mov $-1, %rax
try_jump_end:
	ret
try_jump_fault:			/* where it called does not run: its return is still to be had */
	add $8, %rsp
	ret
#else
exception:
	push %edx
	push %ecx
	lea 8(%esp), %ecx
	push %ecx
	call on_exception
	add $4, %esp
	pop %ecx
	pop %edx
	add $8, %esp
	iret

	.globl try_read, try_write, try_jump
try_read:
	mov 4(%esp), %eax
	mov 12(%esp), %edx
	mov (%eax), %ecx
	mov %ecx, (%edx)
	mov 4(%eax), %ecx
	mov %ecx, 4(%edx)
	mov $-1, %eax
try_read_end:
	ret
try_write:
	mov 4(%esp), %eax
	mov 12(%esp), %ecx
	mov 16(%esp), %edx
	mov %ecx, (%eax)
	mov %edx, 4(%eax)
	mov $-1, %eax
try_write_end:
	ret
try_jump:
	mov 4(%esp), %eax
	call *%eax
	mov $-1, %eax
try_jump_end:
	ret
try_jump_fault:
	add $4, %esp
	ret
#endif
	.globl try_read_end, try_write_end, try_jump_end, try_jump_fault

	.data
	.balign 8
#ifdef __x86_64__
gdt:	.quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
#else
gdt:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
#endif
	.globl gdt_pointer
gdt_pointer:
	.word . - gdt - 1
	.long gdt, 0

	.bss
	.balign 4096
	.globl top_table, hypercall_page
#ifdef __x86_64__
top_table:	.skip 4096
l3_identity:	.skip 4096
#else
top_table:
l3_identity:	.skip 4096
#endif
l2_identity:	.skip 4 * 4096
hypercall_page:	.skip 4096
stack:		.skip 4 * 4096
stack_end:
	.section .note.GNU-stack, "", @progbits
