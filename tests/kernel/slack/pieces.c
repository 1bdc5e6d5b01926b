// SPDX-License-Identifier: MIT
/* Arenas fill hugepages. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

bool has_pieces(void)
{
	return on() && has_knob("mmap_pieces");
}

/* Two arenas, the second in the slack of the first, into which the program has written, as one that writes too far
 * does. */
static char *two_arenas(char **second)
{
	char *first;

	map(ARENA);
	fill(first = map(ARENA), ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	*second = map(ARENA);
	if (has_pieces() && *second != first + ARENA)
		fails("the second is at %p, expected %p", (void *)*second, (void *)(first + ARENA));
	return first;
}

static void arena_reads_zero(void)
{
	char *first, *second;

	first = two_arenas(&second);
	expect(second, ARENA, 0, "second");
	if (has_pieces() && in_hugepages(first, 2 * ARENA) != 2 * ARENA)
		fails("clearing it has split the hugepage");
	fill(second, ARENA, 2);
	expect(first, ARENA, 1, "first");
	munmap(first, ARENA);
	if (is_mapped(first))
		fails("munmap() left something");
	expect(second, ARENA, 2, "second, whose neighbour is gone");
	munmap(second, ARENA);
	if (is_mapped(second) || slack_kib())
		fails("munmap() left something");
}

/* Small pages of slack are given back, and the limit counts what is served. */
static void arena_without_hugepage(void)
{
	long size;
	char *first, *second;

	map(ARENA);
	first = map(ARENA);
	madvise(first, ARENA, MADV_NOHUGEPAGE);
	fill(first, ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	size = of_process("VmSize");
	second = map(ARENA);
	expect(second, ARENA, 0, "second");
	if (of_process("VmSize") != size + (long)(ARENA / KIB))
		fails("%ld KiB count, expected %ld", of_process("VmSize"), size + (long)(ARENA / KIB));
}

static void arena_after_fork(void)
{
	char *first, *second;
	pid_t child;

	map(ARENA);
	fill(first = map(ARENA), ARENA, 1);
	if (has_pieces())
		fill(first + ARENA, ARENA, 7);
	child = fork();
	second = map(ARENA);
	expect(second, ARENA, 0, child ? "parent's" : "child's");
	fill(second, ARENA, child ? 2 : 3);
	expect(second, ARENA, child ? 2 : 3, child ? "parent's" : "child's");
	expect(first, ARENA, 1, child ? "parent's first" : "child's first");
	if (!child)
		_exit(0);
	wait_for(child);
	expect(second, ARENA, 2, "parent's after the child");
}

/* What is served from slack counts, though it was mapped before. */
static void limit_and_arenas(void)
{
	limit(RLIMIT_AS, of_process("VmSize") * (long)KIB + 6 * (long)ARENA);
	for (int i = 0; i < 6; i++) /* the sixth opens a hugepage that has room for one more */
		fill(map(ARENA), ARENA, 1);
	if (mmap(NULL, ARENA, RW, PLAIN, -1, 0) != MAP_FAILED)
		fails("more was granted than the limit is");
}

/* What was done to an arena is not done to the next. */
static void arena_is_fresh(void)
{
	char *first, *second;
	pid_t child;

	map(ARENA);
	first = map(ARENA);
	madvise(first, ARENA, MADV_WIPEONFORK);
	fill(second = map(ARENA), ARENA, 2);
	child = fork();
	if (child == 0) {
		expect(second, ARENA, 2, "child's");
		_exit(0);
	}
	wait_for(child);
	mprotect(first, ARENA, PROT_READ);
	fill(second, ARENA, 3);
	fill(map(ARENA), ARENA, 4);
}

/* One that comes and goes costs no hugepage each time. */
static void piece_comes_and_goes(void)
{
	long faults;

	for (int i = 0; i < 17; i++)
		fill(map(64 * KIB), 64 * KIB, 1);
	faults = read_number("/proc/vmstat", "thp_fault_alloc ");
	for (int i = 0; i < 100; i++) {
		char *at = map(64 * KIB);

		fill(at, 64 * KIB, 1);
		munmap(at, 64 * KIB);
	}
	faults = read_number("/proc/vmstat", "thp_fault_alloc ") - faults;
	value("comes_and_goes.hugepages", faults);
	if (faults > 2)
		fails("%ld hugepages for 64 KiB, 100 times", faults);
}

static void in_pieces(size_t length, size_t total, size_t small, const char *name)
{
	long before = of_process("VmRSS"), rss;
	size_t huge = 0;
	char *at[256];
	char key[64];

	if (!thp_always())
		skips("transparent hugepages are not always on");
	for (size_t i = 0; i < total / length; i++)
		fill(at[i] = map(length), length, (int)i + 1);
	rss = of_process("VmRSS") - before;
	for (size_t i = 0; i < total / length; i++) {
		huge += in_hugepages(at[i], length);
		expect(at[i], length, (int)i + 1, name);
	}
	snprintf(key, sizeof(key), "%s.huge_kib", name);
	value(key, (long)(huge / KIB));
	snprintf(key, sizeof(key), "%s.rss_kib", name);
	value(key, rss);
	if (has_pieces() && huge < total - small)
		fails("%zu of %zu KiB are in hugepages", huge / KIB, total / KIB);
	if (rss > (long)((total + HUGE + 64 * PAGE) / KIB))
		fails("%ld KiB are resident of %zu", rss, total / KIB);
}

static void arenas(void)
{
	in_pieces(ARENA, 16 * MIB, ARENA, "arenas");
}

static void small_pieces(void)
{
	in_pieces(64 * KIB, 8 * MIB, MIB, "pieces");
}

/* A program that asks for little pays nothing. */
static void few_pieces(void)
{
	long size = of_process("VmSize");

	for (int i = 0; i < 16; i++)
		map(64 * KIB);
	map(ARENA);
	size = of_process("VmSize") - size;
	if (size != 2 * (long)(MIB / KIB) || slack_kib())
		fails("%ld KiB are mapped, %lu were asked for; %ld KiB of slack", size, 2 * MIB / KIB, slack_kib());
}

const struct test slack_pieces[] = {
	{ "arenas of 1 MiB", arenas, false },
	{ "pieces of 64 KiB", small_pieces, false },
	{ "few pieces cost nothing", few_pieces, true },
	{ "a piece that comes and goes", piece_comes_and_goes, true },
	{ "an arena reads zero", arena_reads_zero, true },
	{ "an arena reads zero without a hugepage", arena_without_hugepage, true },
	{ "an arena reads zero after fork", arena_after_fork, true },
	{ "an arena is fresh", arena_is_fresh, true },
	{ "RLIMIT_AS and arenas", limit_and_arenas, true },
	{ NULL, NULL, false },
};
