// SPDX-License-Identifier: MIT
/* How much slack and surplus a process may have in all. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define MOST (2 * MIB) /* the default */

/* Mappings until all that may be slack is. */
static void exhaust(void)
{
	long refused = read_number(EVENTS, "abh_mmap_too_much ");

	for (int i = 0; i < 8; i++)
		fill(map(ODD), ODD, i);
	if (!on())
		return;
	if (slack_kib() != 2 * (long)((HUGE - ODD) / KIB))
		fails("8 mappings have %ld KiB of slack", slack_kib());
	if (read_number(EVENTS, "abh_mmap_too_much ") != refused + 6)
		fails("abh_mmap_too_much does not count");
}

static void small_process(void)
{
	bound_to(MOST);
	exhaust();
	bound_to(0);
	map(ODD);
	if (on() && slack_kib() != 2 * (long)((HUGE - ODD) / KIB))
		fails("with a bound of 0, %ld KiB of slack", slack_kib());
}

/* 3 % of what it has in use, however much that is. */
static void large_process(void)
{
	size_t bytes = 40 * HUGE;

	bound_to(MOST);
	fill(map(bytes), bytes, 1);
	for (int i = 0; i < 24; i++)
		fill(map(ODD), ODD, i);
	value("unused.slack_kib", slack_kib());
	if (on() && (slack_kib() <= (long)(MOST / KIB) || slack_kib() > of_process("RssAnon") / 32))
		fails("%ld KiB of slack, and %ld KiB in use", slack_kib(), of_process("RssAnon"));
}

/* The heap shares the bound, and keeps what it has. */
static void heap(void)
{
	char *base = sbrk(0);
	uintptr_t end;

	bound_to(MOST);
	exhaust();
	if (sbrk((intptr_t)(3 * MIB + PAGE)) != base)
		fails("the heap grew elsewhere");
	end = (uintptr_t)base + 3 * MIB + PAGE;
	if (end_of(base) != end)
		fails("the heap ends at %#lx, expected %#lx", end_of(base), end);
	fill(base, 3 * MIB + PAGE, 1);
	bound_to(8 * MIB);
	if (sbrk((intptr_t)PAGE) == (void *)-1 || (on() && end_of(base) % HUGE))
		fails("the heap has no surplus");
	bound_to(0);
	if (sbrk(-(intptr_t)(2 * PAGE)) == (void *)-1 || (on() && end_of(base) % HUGE))
		fails("a heap that shrinks has lost its surplus");
	if (on() && of_process("AbhSurplus") <= 0)
		fails("%ld KiB of surplus", of_process("AbhSurplus"));
}

/*
 * CPython's heap under stock malloc: it grows by as much as malloc asks for, beside arenas of which the last hugepage
 * is not full. That one is about to be, and does not take the heap's hugepages; nor does the heap's surplus theirs.
 */
static void heap_beside_arenas(void)
{
	enum { STEP = 132 * KIB, HEAP = 30 * MIB };
	size_t huge;
	char *base;

	if (!thp_always())
		skips("transparent hugepages are not always on");
	bound_to(MOST);
	for (int i = 0; i < 4; i++) /* the second opens a hugepage, and the fourth */
		fill(map(ARENA), ARENA, i);
	if (has_pieces() && slack_kib() != (long)(ARENA / KIB))
		fails("%ld KiB of slack beside arenas, expected those of one", slack_kib());
	base = sbrk(0);
	for (size_t grown = 0; grown < HEAP; grown += STEP) {
		char *at = sbrk(STEP);

		if (at != base + grown)
			fails("the heap grew elsewhere");
		fill(at, STEP, 1);
	}
	huge = in_hugepages(base, HEAP);
	value("unused.heap_huge_kib", (long)(huge / KIB));
	if (on() && huge < HEAP - 2 * HUGE)
		fails("%zu KiB of the heap are in hugepages", huge / KIB);
	map(ARENA);
	fill(base = map(ARENA), ARENA, 1);
	huge = in_hugepages(base, ARENA);
	if (has_pieces() && huge != ARENA)
		fails("%zu KiB of an arena beside a heap's surplus are in a hugepage", huge / KIB);
}

/* Arenas that are too few for what they would take are bounded as all is: half a bound of slack is there already. */
static void few_arenas(void)
{
	bound_to(MOST);
	exhaust();
	for (int i = 0; i < 18; i++) /* the last one would open a hugepage */
		fill(map(64 * KIB), 64 * KIB, i);
	if (on() && slack_kib() > (long)(MOST / KIB))
		fails("%ld KiB of slack", slack_kib());
}

/* What has to move to grow does so with its hugepages, and gets no more slack than it may. */
static void growth(void)
{
	size_t more = HUGE + ODD;
	char *at;
	long slack;

	bound_to(MOST);
	at = map(2 * HUGE);
	fill(at, 2 * HUGE, 1);
	exhaust();
	slack = slack_kib();
	at = mremap(at, 2 * HUGE, 2 * HUGE + more, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		fails("mremap(): %s", strerror(errno));
	expect(at, 2 * HUGE, 1, "what was there");
	expect(at + 2 * HUGE, more, 0, "what is new");
	if (slack_kib() > slack)
		fails("%ld KiB of slack, %ld before", slack_kib(), slack);
	munmap(at, 2 * HUGE + more);
	if (slack_kib() != slack)
		fails("munmap() left %ld KiB of slack, %ld before", slack_kib(), slack);
}

const struct test slack_unused[] = {
	{ "a small process has little slack", small_process, true },
	{ "a large process has 3 % of slack", large_process, true },
	{ "the heap shares the bound on slack", heap, true },
	{ "a heap and arenas take nothing from each other", heap_beside_arenas, true },
	{ "few arenas have little slack", few_arenas, true },
	{ "mremap() and the bound on slack", growth, true },
	{ NULL, NULL, false },
};
