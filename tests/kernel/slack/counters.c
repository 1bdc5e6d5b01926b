// SPDX-License-Identifier: MIT
/* What ABH does, or does not, is counted. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"
#define MAP_COUNT "/proc/sys/vm/max_map_count"
#define THP "/sys/kernel/mm/transparent_hugepage/enabled"

static void an_odd_mapping(void)
{
	map(ODD);
}

static void a_short_tail(void)
{
	map(HUGE + PAGE);
}

static void more_than_plain_memory(void)
{
	map_with(ODD, PLAIN | MAP_NORESERVE);
}

static void no_hugepages(void)
{
	write_file(THP, "never");
	map(ODD);
	write_file(THP, "always");
}

static void strict_overcommit(void)
{
	write_file(OVERCOMMIT, "2");
	mmap(NULL, ODD, RW, PLAIN, -1, 0);
	write_file(OVERCOMMIT, "0");
}

static void many_mappings(void)
{
	long before = read_number(MAP_COUNT, "");

	write_file(MAP_COUNT, "%ld", 2 * count_vmas() - 4);
	mmap(NULL, ODD, RW, PLAIN, -1, 0);
	write_file(MAP_COUNT, "%ld", before);
}

static void no_room(void)
{
	limit(RLIMIT_AS, of_process("VmSize") * (long)KIB);
	mmap(NULL, ODD, RW, PLAIN, -1, 0);
}

static void in_the_way(void)
{
	mmap(with_slack(ODD) + ODD, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
}

static void pieces(void)
{
	for (int i = 0; i < 3; i++)
		map(ARENA);
}

static void growth(void)
{
	mremap(with_slack(ODD), ODD, ODD + PAGE, 0);
}

static void moving(void)
{
	mremap(with_slack(ODD), ODD, 3 * HUGE, MREMAP_MAYMOVE);
}

static void too_much(void)
{
	write_file(KNOBS "unused_kib", "0");
	map(ODD);
	sbrk((intptr_t)(3 * MIB + PAGE));
	write_file(KNOBS "unused_kib", NO_BOUND);
}

static const struct {
	const char *name;
	void (*make)(void);
} counters[] = {
	{ "abh_mmap_extended ", an_odd_mapping },
	{ "abh_mmap_slack_pages ", an_odd_mapping },
	{ "abh_mmap_small ", a_short_tail },
	{ "abh_mmap_excluded ", more_than_plain_memory },
	{ "abh_mmap_no_thp ", no_hugepages },
	{ "abh_mmap_overcommit ", strict_overcommit },
	{ "abh_mmap_many ", many_mappings },
	{ "abh_mmap_no_room ", no_room },
	{ "abh_mmap_too_much ", too_much },
	{ "abh_mmap_dropped ", in_the_way },
	{ "abh_mmap_served ", pieces },
	{ "abh_mmap_grown ", growth },
	{ "abh_mmap_moved ", moving },
	{ "abh_heap_too_much ", too_much },
};

/* In a process of its own each, as of limits there is no way back. */
static void count(void)
{
	long missing = 0;

	if (read_number(EVENTS, counters[0].name) < 0)
		skips("the kernel has no such counters");
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		long before = read_number(EVENTS, counters[i].name), more;
		int status;
		pid_t child = fork();

		if (child == 0) {
			counters[i].make();
			_exit(0);
		}
		waitpid(child, &status, 0);
		more = read_number(EVENTS, counters[i].name) - before;
		if (!status && (more > 0) == on())
			continue;
		printf("# %sis %ld more; status %#x\n", counters[i].name, more, (unsigned)status);
		missing++;
	}
	if (missing)
		fails("%ld counters do not count", missing);
}

const struct test slack_counters[] = {
	{ "each counter counts", count, true },
	{ NULL, NULL, false },
};
