// SPDX-License-Identifier: MIT
// Small programs of Wienand's thesis, for the counters of the machine: what a round counts is the difference of two
// runs that differ in their rounds.
#include "init.h"

static char *map(word bytes)
{
	enum { NORESERVE = 0x4000 };

	return (char *)call(0, bytes, 3, 0x22 | NORESERVE, -1, 0, MMAP);
}

// Section 4.3.1: pages as far apart as a page of the linear page table reaches, so that each needs one of its own.
static int strided(word rounds)
{
	enum { PAGES = 512, APART = 32 << 20 };
	char *all = map((word)PAGES * APART);

	for (; rounds; rounds--) {
		for (word page = 0; page < PAGES; page++)
			all[page * APART] = 1;
	}
	return 1;
}

// Table 4.2: one page after the other.
static int linear(word rounds)
{
	enum { BYTES = 128 << 20 };
	char *all = map(BYTES);

	for (; rounds; rounds--) {
		for (word at = 0; at < BYTES; at += PAGE)
			all[at] = 1;
	}
	return 1;
}

static char pass(int from, int to)
{
	char token;

	return call(from, (long)&token, 1, 0, 0, 0, READ) == 1 && call(to, (long)&token, 1, 0, 0, 0, WRITE) == 1;
}

// Figure 4.5: processes that touch ten pages each, one after the other, as a token goes round through pipes.
static int processes(word rounds)
{
	enum { PROCESSES = 48, PAGES = 10 };
	char *all = map(PAGES * PAGE), token = 0;
	int well = 1, ring[PROCESSES + 1][2], status;

	for (int i = 0; i <= PROCESSES; i++)
		well &= !call((long)ring[i], 0, 0, 0, 0, 0, PIPE);
	for (int i = 0; i < PROCESSES; i++) {
		if (call(CHILD, 0, 0, 0, 0, 0, CLONE))
			continue;
		for (word left = rounds; left; left--) {
			for (int page = 0; page < PAGES; page++)
				all[page * PAGE]++;
			well &= pass(ring[i][0], ring[i + 1][1]);
		}
		call(!well, 0, 0, 0, 0, 0, EXIT);
	}
	for (; rounds; rounds--) {
		well &= call(ring[0][1], (long)&token, 1, 0, 0, 0, WRITE) == 1;
		well &= call(ring[PROCESSES][0], (long)&token, 1, 0, 0, 0, READ) == 1;
	}
	for (int i = 0; i < PROCESSES; i++)
		well &= call(-1, (long)&status, 0, 0, 0, 0, WAIT) > 0 && !status;
	return well;
}

int thesis(const char *name, word rounds)
{
	static const struct {
		const char *name;
		int (*run)(word rounds);
	} programs[] = { { "strided", strided }, { "linear", linear }, { "processes", processes } };

	for (word i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const char *one = programs[i].name, *other = name;

		while (*one && *one == *other)
			one++, other++;
		if (!*one && !*other)
			return programs[i].run(rounds);
	}
	return 0;
}
