// SPDX-License-Identifier: MIT
/* Transparent hugepages decide: who cannot have any gets nothing of ABH, and pays nothing. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abh.h"
#include "../cases.h"
#include "semantics.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define SIZE_2M THP "hugepages-2048kB/enabled"

/* What a program finds, as bits of its exit status. */
enum { MEMBER = 1, SURPLUS = 2, KEPT = 4, SLACK = 8, HUGE_HEAP = 16, HUGE_MAPPING = 32, BROKEN = 64 };

/* A heap of which the last 1.5 MiB are in one hugepage, if it has some. */
static char *heap_in_one(void)
{
	char *top = (char *)(((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1)) + 7 * MIB / 4;

	if (brk(top))
		_exit(BROKEN);
	fill(top - 6 * MIB, 6 * MIB, 1);
	return top;
}

/* Each in the program that it is asked of. */
int finds(void)
{
	char *top, *at;
	int found = of_process("AbhSurplus") < 0 ? 0 : MEMBER;
	long rss;

	/* Before the heap keeps as much as a small process may. */
	at = map(ODD);
	fill(at, ODD, 1);
	found |= of_process("AbhSlack") > 0 ? SLACK : 0;
	found |= in_hugepages(at, ODD) == ODD ? HUGE_MAPPING : 0;
	top = heap_in_one();
	found |= end_of(top - PAGE) == (uintptr_t)top ? 0 : SURPLUS;
	found |= in_hugepages(top - 6 * MIB, 6 * MIB) ? HUGE_HEAP : 0;
	rss = of_process("RssAnon");
	if (brk(top - 3 * MIB / 2))
		return BROKEN;
	found |= rss - of_process("RssAnon") >= (long)(3 * MIB / 2 / KIB) ? 0 : KEPT;
	return found;
}

/* A program that is started now. */
static int found(bool asks, bool refuses_hugepages)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (asks)
			prctl(PR_SET_ABH, PR_ABH_ON, 0, 0, 0);
		if (refuses_hugepages)
			prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
		execl("/proc/self/exe", "semantics", "finds", NULL);
		_exit(BROKEN);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}

static bool is_set(const char *path, const char *value)
{
	if (!write_file(path, "%s", value))
		return true;
	printf("# %s is not %s\n", path, value);
	return false;
}

static void nothing_without_hugepages(void)
{
	static const struct {
		const char *what, *path, *value, *usual;
		bool refuses;
	} ways[] = {
		{ "THP never", THP "enabled", "never", "always", false },
		{ "THP madvise, and no advice", THP "enabled", "madvise", "always", false },
		{ "2 MiB never", SIZE_2M, "never", "inherit", false },
		{ "2 MiB madvise, and no advice", SIZE_2M, "madvise", "inherit", false },
		{ "PR_SET_THP_DISABLE", THP "enabled", "always", "always", true },
	};
	int usual = found(false, false), wrong = 0;

	if (usual != (on() ? MEMBER | SURPLUS | KEPT | SLACK | HUGE_HEAP | HUGE_MAPPING : usual & HUGE_HEAP))
		fails("as it is, %#x", (unsigned)usual);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int now;

		if (!is_set(ways[i].path, ways[i].value))
			continue;
		now = found(false, ways[i].refuses);
		is_set(ways[i].path, ways[i].usual);
		if (now)
			printf("# %s: %#x\n", ways[i].what, (unsigned)now);
		wrong += !!now;
	}
	if (wrong)
		fails("%d ways to have no hugepages, and ABH does something", wrong);
}

/* A program that runs already when hugepages are switched off gives back what it gives back. */
static void switched_off_meanwhile(void)
{
	char *top = heap_in_one();
	long rss;
	int slack;

	if (!is_set(THP "enabled", "never"))
		skips("THP stays as it is");
	rss = of_process("RssAnon");
	brk(top - 3 * MIB / 2);
	rss -= of_process("RssAnon");
	map(ODD);
	slack = of_process("AbhSlack") > 0;
	is_set(THP "enabled", "always");
	if (rss < (long)(3 * MIB / 2 / KIB) || slack)
		fails("%ld KiB were given back; slack: %d", rss, slack);
}

/* A group that has no room for a hugepage. */
static void small_group(void)
{
	char *at;

	enter_group("1900K", "0");
	at = map(ODD);
	if (of_process("AbhSlack") > 0)
		fails("a process that can have no hugepage has slack at %p", (void *)at);
}

/* Under madvise a program that asked for ABH has asked for hugepages, and gets them without advice. */
static void asked_for(void)
{
	static const int all = MEMBER | SURPLUS | KEPT | SLACK | HUGE_HEAP | HUGE_MAPPING;
	int plain, asks;

	if (!is_set(THP "enabled", "madvise"))
		skips("THP stays as it is");
	plain = found(false, false);
	asks = found(true, false);
	is_set(THP "enabled", "always");
	if (plain || asks != (on() ? all : 0))
		fails("under madvise %#x, and %#x for one that asks", (unsigned)plain, (unsigned)asks);
}

const struct test semantics_thp[] = {
	{ "without hugepages ABH does nothing", nothing_without_hugepages, false },
	{ "hugepages are switched off meanwhile", switched_off_meanwhile, false },
	{ "a group without room for a hugepage", small_group, false },
	{ "who asks gets hugepages under madvise", asked_for, false },
	{ NULL, NULL, false },
};
