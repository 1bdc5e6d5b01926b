// SPDX-License-Identifier: MIT
/*
 * Has a heap and mappings that ABH would change, and writes /proc/self/maps and /proc/self/status. It needs no library,
 * so that it can be of 32 bits: "bits32" is loaded at the address it was linked for; "bits32-pie" is placed as programs
 * of today are, and names "bits32-loader" as its loader. "bits64" is the same, of 64.
 */
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#include "cases.h"
#include "semantics/semantics.h"

/* Of 32 bits, the last argument of mmap is left out: where in a file, and there is none. */
static long call(long number, long a, long b, long c, long d)
{
	long result;

#ifdef __i386__
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(-1) : "memory");
#else
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = -1, r9 __asm__("r9") = 0;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#endif
	return result;
}

#ifdef __i386__
#define MAP __NR_mmap2
#else
#define MAP __NR_mmap
#endif

/* Memory that is used. */
static long take(long bytes)
{
	long at = call(MAP, 0, bytes, RW, PLAIN);

	*(volatile char *)at = 1;
	return at;
}

static void copy(const char *path)
{
	static char text[PAGE];
	long got, file = call(__NR_open, (long)path, O_RDONLY, 0, 0);

	while ((got = call(__NR_read, file, (long)text, sizeof(text), 0)) > 0)
		call(__NR_write, 1, (long)text, got, 0);
}

/* Entered by no call: the stack is aligned otherwise than a function expects. */
__attribute__((noreturn, force_align_arg_pointer)) void _start(void)
{
	long heap = call(__NR_brk, 0, 0, 0, 0), at = take(ODD);

	take(CACTUS);
	call(__NR_mremap, at, ODD, ODD + PAGE, MREMAP_MAYMOVE);
	at = take(2 * HUGE);
	call(__NR_munmap, at + HUGE + ODD, HUGE - ODD, 0, 0);
	for (int i = 0; i < 3; i++) /* the last would be served as a piece */
		take(ARENA);
	call(__NR_brk, heap + ASKED + MIB, 0, 0, 0);
	for (long i = 0; i < (long)(ASKED + MIB); i += HUGE)
		*(volatile char *)(heap + i) = 1;
	call(__NR_brk, heap + ASKED, 0, 0, 0);
	copy("/proc/self/maps");
	copy("/proc/self/status");
	call(__NR_exit, 0, 0, 0, 0);
	for (;;)
		;
}
