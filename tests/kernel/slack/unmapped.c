// SPDX-License-Identifier: MIT
/* What was unmapped is not there: each page of it faults, whatever became of its hugepage. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "../cases.h"
#include "slack.h"

enum { TIMES = 20 };

static sigjmp_buf faulted;

static void on_fault(int number)
{
	siglongjmp(faulted, number);
}

/* Reading and writing both. Returns how many pages of the range can be had. */
static size_t there(char *at, size_t bytes)
{
	/* Not on the stack of what may be left in the middle. */
	static volatile size_t offset, n;

	signal(SIGSEGV, on_fault);
	for (offset = n = 0; offset < bytes; offset += PAGE) {
		volatile char *page = at + offset;

		if (sigsetjmp(faulted, 1))
			continue;
		*page = (char)(*page + 1);
		n++;
	}
	signal(SIGSEGV, SIG_DFL);
	return n;
}

static void gone(char *at, size_t bytes, const char *how)
{
	size_t n = there(at, bytes);

	if (n)
		fails("%s: %zu of %zu pages are still there", how, n, bytes / PAGE);
}

/* The place of the mapping in its hugepages is random, so each is tried often. */
static void parts(void)
{
	long before = read_number("/proc/vmstat", "thp_split_pmd ");

	for (size_t i = 1; i <= TIMES; i++) {
		size_t part = i * 15 * PAGE;
		char *at = map(ODD);

		fill(at, ODD, 1);
		munmap(at + ODD - part, part);
		gone(at + ODD - part, part, "munmap() of the end");
		expect(at, ODD - part, 1, "what is left before it");
		munmap(at, ODD - part);
		gone(at, ODD, "munmap() of the rest");

		at = map(HUGE + ODD);
		fill(at, HUGE + ODD, 1);
		munmap(at, part);
		gone(at, part, "munmap() of the start");
		munmap(at + HUGE, part);
		gone(at + HUGE, part, "munmap() of the middle");
		munmap(at + part, HUGE + ODD - part);
		gone(at, HUGE + ODD, "munmap() of the rest in two parts");

		at = map(2 * HUGE);
		fill(at, 2 * HUGE, 1);
		if (mremap(at, 2 * HUGE, 2 * HUGE - part, 0) != at)
			fails("mremap() to less: %s", strerror(errno));
		gone(at + 2 * HUGE - part, part, "mremap() to less");
		expect(at, 2 * HUGE - part, 1, "what is left");
		munmap(at, 2 * HUGE - part);
	}
	value("unmapped.splits", read_number("/proc/vmstat", "thp_split_pmd ") - before);
}

/* Of an allocator's arenas, which leave room in their hugepage, each has its turn to be the last of it. */
static void pieces(void)
{
	enum { N = 40 };
	size_t bytes = 64 * KIB;

	for (int round = 0; round < 2; round++) {
		char *at[N];

		for (int i = 0; i < N; i++)
			fill(at[i] = map(bytes), bytes, i + 1);
		for (int i = 0; i < N; i++) {
			int which = round ? i : N - 1 - i;

			munmap(at[which], bytes);
			gone(at[which], bytes, "munmap() of a piece");
			for (int j = 0; j < N; j++)
				if (round ? j > which : j < which)
					expect(at[j], bytes, j + 1, "a piece that is left");
		}
	}
}

static void moved(void)
{
	for (int i = 0; i < TIMES; i++) {
		char *at = map(ODD), *block, *to;

		fill(at, ODD, 1);
		block = mmap((char *)end_of(at + ODD - PAGE), PAGE, PROT_READ, PLAIN, -1, 0); /* it has to move */
		to = mremap(at, ODD, 2 * HUGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			fails("mremap() to more: %s", strerror(errno));
		if (to != at)
			gone(at, ODD, "mremap() to elsewhere");
		munmap(to, 2 * HUGE);
		gone(to, 2 * HUGE, "munmap() of what had moved");
		munmap(block, PAGE);
	}
}

const struct test slack_unmapped[] = {
	{ "what is unmapped faults", parts, false },
	{ "pieces that are unmapped fault", pieces, false },
	{ "where a mapping was faults", moved, false },
	{ NULL, NULL, false },
};
