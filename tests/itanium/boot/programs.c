// SPDX-License-Identifier: MIT
// The programs of tests/itanium/thesis, by name, and what they share.
#include "init.h"

extern const struct program __start_programs[], __stop_programs[];

char *reserve(word bytes)
{
	enum { NORESERVE = 0x4000 };

	return (char *)call(0, bytes, 3, 0x22 | NORESERVE, -1, 0, MMAP);
}

void touch(char *memory, word bytes)
{
	for (word at = 0; at < bytes; at += PAGE)
		((volatile char *)memory)[at] = 1;
}

int ended(long child)
{
	int status = 1;

	return call(child, (long)&status, 0, 0, 0, 0, WAIT) > 0 && !status;
}

static int same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

int perform(const char *name, word rounds)
{
	for (const struct program *program = __start_programs; program < __stop_programs; program++) {
		if (same(program->name, name))
			return program->run(rounds);
	}
	return 0;
}
