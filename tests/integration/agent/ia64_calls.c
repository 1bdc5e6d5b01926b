// SPDX-License-Identifier: MIT
/* Calls of the Itanium machine's kernel as this computer's: what would change this computer does nothing. */
#include "calls.h"

__asm__(".global _start\n_start:\n\tmov (%rsp), %rdi\n\tlea 8(%rsp), %rsi\n\tcall main\n\tmov %eax, %edi\n\tcall exit");

static long of_this_computer(long number)
{
	static const struct {
		long there, here;
	} numbers[] = { { CALL_EXIT, 60 },  { CALL_READ, 0 },    { CALL_WRITE, 1 },      { CALL_OPEN, 2 },
			{ CALL_CLOSE, 3 },  { CALL_EXECVE, 59 }, { CALL_CHDIR, 80 },     { CALL_ACCESS, 21 },
			{ CALL_DUP2, 33 },  { CALL_REBOOT, 60 }, { CALL_SETITIMER, 38 }, { CALL_WAIT4, 61 },
			{ CALL_CLONE, 57 }, { CALL_MMAP, 9 },    { CALL_MUNMAP, 11 },    { CALL_BRK, 12 } };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].there == number)
			return numbers[i].here;
	return -1;
}

long call(long a, long b, long c, long d, long e, long f, long number)
{
	register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
	long result = of_this_computer(number);

	if (result < 0)
		return 0;
	if (number == CALL_REBOOT)
		a = 0; /* an end with status 0 */
	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
}
