// SPDX-License-Identifier: MIT
/*
 * Writes where its heap begins, where five mappings land, and where its program is entered, and nothing else happens:
 * no library, no loader. Built as "fixed", which is loaded at the address it was linked for; as "tell", a loader; and
 * as "pie", which names "tell" as its loader, and is placed as every program of today is.
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = -1, r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static long map(long bytes, long protection)
{
	return call(SYS_mmap, 0, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS);
}

/* Not of the loader, which this may be, but of what it loads. */
static long entry(void)
{
	Elf64_auxv_t auxv[64] = { { 0 } };
	long file = call(SYS_open, (long)"/proc/self/auxv", O_RDONLY, 0, 0);

	call(SYS_read, file, (long)auxv, sizeof(auxv) - sizeof(auxv[0]), 0);
	call(SYS_close, file, 0, 0, 0);
	for (int i = 0; auxv[i].a_type != AT_NULL; i++)
		if (auxv[i].a_type == AT_ENTRY)
			return (long)auxv[i].a_un.a_val;
	return 0;
}

/* Entered by no call: the stack is aligned otherwise than a function expects. */
__attribute__((noreturn, force_align_arg_pointer)) void _start(void)
{
	long found[7] = { call(SYS_brk, 0, 0, 0, 0), map(4096, PROT_READ) };

	/* Before the aligned one: what follows that has its low bits from it. */
	found[2] = map(1280 << 10, PROT_READ | PROT_WRITE);
	found[3] = map((2 << 20) - 4096, PROT_READ | PROT_WRITE); /* the least slack that there can be */
	for (int i = 0; i < 3; i++)                               /* the last is served as a piece */
		found[4] = map(1 << 20, PROT_READ | PROT_WRITE);
	found[5] = map(4 << 20, PROT_READ);
	found[6] = entry();
	call(SYS_exit, call(SYS_write, 1, (long)found, sizeof(found), 0) != sizeof(found), 0, 0, 0);
	for (;;)
		;
}
