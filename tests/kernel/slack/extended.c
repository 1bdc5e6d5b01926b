// SPDX-License-Identifier: MIT
/* What is extended, and what is not. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

static void extends(void)
{
	static const size_t tails[] = { 0, PAGE, MIB - PAGE, MIB, MIB + PAGE, HUGE - PAGE };

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		size_t bytes = 2 * HUGE + tails[i], want = on() && tails[i] > MIB ? 3 * HUGE : bytes;
		long extended = read_number(EVENTS, "abh_mmap_extended ");
		char *at = map(bytes);

		/* Alone in the address space, but for what lies far above. */
		if (end_of(at) - (uintptr_t)at != want)
			fails("%zu KiB: %zu KiB are mapped, expected %zu", bytes / KIB,
			      (end_of(at) - (uintptr_t)at) / KIB, want / KIB);
		if (want != bytes && (uintptr_t)at % HUGE)
			fails("%zu KiB start at %p, not with a hugepage", bytes / KIB, (void *)at);
		if (slack_kib() != (long)((want - bytes) / KIB))
			fails("%zu KiB: /proc/self/status tells of %ld KiB of slack", bytes / KIB, slack_kib());
		if (on() && read_number(EVENTS, "abh_mmap_extended ") != extended + (want != bytes))
			fails("%zu KiB: abh_mmap_extended does not count", bytes / KIB);
		munmap(at, bytes);
		if (slack_kib())
			fails("%ld KiB of slack are left", slack_kib());
	}
}

/* Whatever a request says, the size asked for is what it gets. */
static void excluded_at(void *at, const char *what, int protection, int flags, int file)
{
	char *got = mmap(at, ODD, protection, flags, file, 0);

	if (got == MAP_FAILED)
		fails("%s: %s", what, strerror(errno));
	if (slack_kib())
		fails("%s: %ld KiB of slack", what, slack_kib());
	if (munmap(got, flags & MAP_HUGETLB ? HUGE : ODD))
		fails("%s: %s", what, strerror(errno));
}

static void excluded(const char *what, int protection, int flags, int file)
{
	excluded_at(NULL, what, protection, flags, file);
}

static void exclusions(void)
{
	void *free = (void *)(1ul << 41);
	int file = memfd_create("file", MFD_CLOEXEC);

	if (ftruncate(file, ODD))
		fails("memfd: %s", strerror(errno));
	excluded("shared anonymous memory", RW, MAP_SHARED | MAP_ANONYMOUS, -1);
	excluded("a shared file", RW, MAP_SHARED, file);
	excluded("a private file", RW, MAP_PRIVATE, file);
	excluded("MAP_STACK", RW, PLAIN | MAP_STACK, -1);
	excluded("MAP_GROWSDOWN", RW, PLAIN | MAP_GROWSDOWN, -1);
	excluded("MAP_NORESERVE", RW, PLAIN | MAP_NORESERVE, -1);
	if (!write_file("/proc/sys/vm/nr_hugepages", "1"))
		excluded("MAP_HUGETLB", RW, PLAIN | MAP_HUGETLB, -1);
	write_file("/proc/sys/vm/nr_hugepages", "0");
	excluded("MAP_LOCKED", RW, PLAIN | MAP_LOCKED, -1);
	excluded("MAP_POPULATE", RW, PLAIN | MAP_POPULATE, -1);
	excluded("MAP_32BIT", RW, PLAIN | MAP_32BIT, -1);
	excluded_at(free, "a hint", RW, PLAIN, -1);
	excluded_at(free, "MAP_FIXED", RW, PLAIN | MAP_FIXED, -1);
	excluded_at(free, "MAP_FIXED_NOREPLACE", RW, PLAIN | MAP_FIXED_NOREPLACE, -1);
	excluded("PROT_NONE", PROT_NONE, PLAIN, -1);
	excluded("PROT_READ", PROT_READ, PLAIN, -1);
	excluded("PROT_EXEC", RW | PROT_EXEC, PLAIN, -1);
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		fails("PR_SET_THP_DISABLE: %s", strerror(errno));
	excluded("PR_SET_THP_DISABLE", RW, PLAIN, -1);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (!mlockall(MCL_FUTURE))
		excluded("mlockall(MCL_FUTURE)", RW, PLAIN, -1);
	munlockall();
	map(ODD);
	if (on() && !slack_kib())
		fails("nothing is extended at all");
}

static void not_with_strict_overcommit(void)
{
	char *at;

	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("overcommit is as it is");
	at = mmap(NULL, ODD, RW, PLAIN, -1, 0);
	write_file("/proc/sys/vm/overcommit_memory", "0");
	if (at == MAP_FAILED || slack_kib())
		fails("%ld KiB of slack", slack_kib());
}

/* As mappings and ranges of slack come near the limit, no more are made. */
static void not_with_many_mappings(void)
{
	char few[24], before[24];

	snprintf(before, sizeof(before), "%ld", read_number("/proc/sys/vm/max_map_count", ""));
	snprintf(few, sizeof(few), "%ld", 2 * count_vmas() - 4);
	write_file("/proc/sys/vm/max_map_count", few);
	map(ODD);
	write_file("/proc/sys/vm/max_map_count", before);
	if (slack_kib())
		fails("%ld KiB of slack", slack_kib());
}

static void no_such_call(int number)
{
	(void)number;
	_exit(SKIPPED);
}

/* A system call of 32 bits, by a program of 64: its addresses must fit. */
static void not_for_32_bits(void)
{
	long got;

	signal(SIGSEGV, no_such_call); /* a kernel without them */
	__asm__ volatile("int $0x80"
			 : "=a"(got)
			 : "a"(192), "b"(0), "c"(ODD), "d"(RW), "S"(PLAIN), "D"(-1)
			 : "r8", "r9", "r10", "r11", "memory");
	if (slack_kib() || got < 0 || got >> 32)
		fails("mmap2 gave %#lx, and %ld KiB of slack", got, slack_kib());
}

static void tail_is_huge(void)
{
	size_t bytes = 2 * HUGE + ODD;
	char *at = map(bytes);
	long faults;

	if (!thp_always())
		skips("transparent hugepages are not always on");
	faults = minor_faults();
	fill(at, bytes, 1);
	faults = minor_faults() - faults;
	value("odd.faults", faults);
	value("odd.huge_kib", (long)(in_hugepages(at, bytes) / KIB));
	if (on() && (faults > 3 || in_hugepages(at, bytes) != bytes))
		fails("%ld faults, %zu of %zu KiB in hugepages", faults, in_hugepages(at, bytes) / KIB, bytes / KIB);
}

static void not_without_hugepages(void)
{
	if (write_file("/sys/kernel/mm/transparent_hugepage/enabled", "never"))
		skips("no transparent hugepages");
	map(ODD);
	write_file("/sys/kernel/mm/transparent_hugepage/enabled", "always");
	if (slack_kib())
		fails("extended, and there are no hugepages");
}

const struct test slack_extended[] = {
	{ "what is extended", extends, true },
	{ "what is not extended", exclusions, true },
	{ "nothing is extended without hugepages", not_without_hugepages, true },
	{ "nothing is extended with strict overcommit", not_with_strict_overcommit, true },
	{ "nothing is extended with many mappings", not_with_many_mappings, true },
	{ "nothing is extended for 32 bits", not_for_32_bits, true },
	{ "the tail is a hugepage", tail_is_huge, true },
	{ NULL, NULL, false },
};
