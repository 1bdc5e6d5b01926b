// SPDX-License-Identifier: MIT
// The programs of tests/itanium/thesis, by name, and what they share.
#include "init.h"

extern const struct program __start_programs[], __stop_programs[];

char *reserve(word bytes)
{
	enum { NORESERVE = 0x4000 };

	return (char *)call(0, bytes, 3, 0x22 | NORESERVE, -1, 0, MMAP);
}

char *reserve_huge(word bytes)
{
	enum { HUGETLB = 0x40000 };

	return (char *)call(0, bytes, 3, 0x22 | HUGETLB, -1, 0, MMAP);
}

void touch(char *memory, word bytes)
{
	for (word at = 0; at < bytes; at += PAGE)
		((volatile char *)memory)[at] = 1;
}

void at_random(char *memory, word bytes, int touches, word rounds)
{
	word at = 1;

	for (; rounds; rounds--) {
		for (int i = 0; i < touches; i++) {
			at = at * 6364136223846793005 + 1442695040888963407;
			memory[at >> 33 & (bytes - 1)]++;
		}
	}
}

int ended(long child)
{
	int status = 1;

	return call(child, (long)&status, 0, 0, 0, 0, WAIT) > 0 && !status;
}

int start(const char *megabytes)
{
	const char *const arguments[] = { "/init", megabytes, 0 }, *const environment[] = { 0 };
	long child = call(CHILD, 0, 0, 0, 0, 0, CLONE);

	if (!child) {
		call((long)arguments[0], (long)arguments, (long)environment, 0, 0, 0, EXECVE);
		call(1, 0, 0, 0, 0, 0, EXIT);
	}
	return ended(child);
}

static int pass(int from, int to)
{
	char token;

	return call(from, (long)&token, 1, 0, 0, 0, READ) == 1 && call(to, (long)&token, 1, 0, 0, 0, WRITE) == 1;
}

int relay(int processes, int pages, word rounds)
{
	enum { MOST = 96 };
	char *all = reserve((word)(pages + 1) * PAGE), token = 0;
	int well = processes <= MOST, ring[MOST + 1][2];

	for (int i = 0; i <= processes; i++)
		well &= !call((long)ring[i], 0, 0, 0, 0, 0, PIPE);
	for (int i = 0; i < processes; i++) {
		if (call(CHILD, 0, 0, 0, 0, 0, CLONE))
			continue;
		for (word left = rounds; left; left--) {
			touch(all, pages * PAGE);
			well &= pass(ring[i][0], ring[i + 1][1]);
		}
		call(!well, 0, 0, 0, 0, 0, EXIT);
	}
	for (; rounds; rounds--) {
		well &= call(ring[0][1], (long)&token, 1, 0, 0, 0, WRITE) == 1;
		well &= call(ring[processes][0], (long)&token, 1, 0, 0, 0, READ) == 1;
	}
	for (int i = 0; i < processes; i++)
		well &= ended(-1);
	return well;
}

static int same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

static const struct program *program_of(const char *name)
{
	for (const struct program *program = __start_programs; program < __stop_programs; program++) {
		if (same(program->name, name))
			return program;
	}
	return 0;
}

int is_program(const char *name)
{
	return program_of(name) != 0;
}

void say_programs(void)
{
	for (const struct program *program = __start_programs; program < __stop_programs; program++) {
		say(" ");
		say(program->name);
	}
}

int perform(const char *name, word rounds)
{
	return program_of(name)->run(rounds);
}
