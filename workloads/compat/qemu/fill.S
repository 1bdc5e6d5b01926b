/* SPDX-License-Identifier: MIT */
/* A boot sector: fills most of the machine's memory, adds up what it reads of it, and says so on the debug port. */
	.code16
	.globl _start
_start:
	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	lgdt	table
	movl	%cr0, %eax
	orb	$1, %al
	movl	%eax, %cr0
	ljmp	$8, $protected

	.code32
protected:
	movw	$16, %ax
	movw	%ax, %ds
	movw	%ax, %es
	/* From 16 MiB: a word in each 64 bytes of MIB megabytes. */
	movl	$(MIB << 14), %ecx
	movl	$(16 << 20), %edi
	movl	$1, %eax
1:	movl	%eax, (%edi)
	imull	$69069, %eax, %eax
	incl	%eax
	addl	$64, %edi
	loop	1b
	movl	$(MIB << 14), %ecx
	movl	$(16 << 20), %edi
	xorl	%ebx, %ebx
2:	roll	$1, %ebx
	xorl	(%edi), %ebx
	addl	$64, %edi
	loop	2b
	movl	$text, %esi
	call	say
	movl	$8, %ecx
3:	roll	$4, %ebx
	movb	%bl, %al
	andb	$15, %al
	addb	$'0', %al
	cmpb	$'9', %al
	jbe	4f
	addb	$('a' - '9' - 1), %al
4:	outb	%al, $0xe9
	loop	3b
	movb	$'\n', %al
	outb	%al, $0xe9
5:	hlt
	jmp	5b

say:	lodsb
	testb	%al, %al
	jz	6f
	outb	%al, $0xe9
	jmp	say
6:	ret

text:	.asciz	"answer: "
	.balign	8
segments:
	.quad	0, 0x00cf9a000000ffff, 0x00cf92000000ffff
table:	.word	23
	.long	segments
	.org	510
	.word	0xaa55
