// SPDX-License-Identifier: MIT
/* Slack is never in the way. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

void left(const char *at, const char *after)
{
	uintptr_t start, end, first = (uintptr_t)at;

	for (char *line = maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start < first + HUGE && end > first)
			fails("%s left %#lx-%#lx, around or behind %p", after, start, end, (const void *)at);
}

static void munmap_leaves_nothing(void)
{
	long vmas = count_vmas(), size = of_process("VmSize");
	char *at, *under;

	at = with_slack(ODD);
	munmap(at, ODD);
	left(at, "munmap()");
	at = with_slack(ODD); /* in two parts, the head first */
	munmap(at, MIB);
	munmap(at + MIB, ODD - MIB);
	left(at, "munmap() in two parts");
	at = with_slack(ODD); /* the tail first */
	munmap(at + MIB, ODD - MIB);
	if (is_mapped(at + MIB) || is_mapped(at + ODD))
		fails("munmap() of the tail left something");
	expect(at, MIB, 1, "head");
	munmap(at, MIB);
	at = with_slack(ODD); /* the upper of two */
	under = with_slack(ODD);
	munmap(at, ODD);
	left(at, "munmap() of one of two");
	munmap(under, ODD);
	at = with_slack(ODD); /* from within */
	munmap(at + ODD + PAGE, PAGE);
	munmap(at, ODD);
	if (count_vmas() != vmas || of_process("VmSize") != size)
		fails("%ld VMAs and %ld KiB more than before", count_vmas() - vmas, of_process("VmSize") - size);
}

static void munmap_splits_nothing(void)
{
	long splits = read_number("/proc/vmstat", "thp_split_pmd");

	for (int i = 0; i < 8; i++)
		munmap(with_slack(ODD), ODD);
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	value("munmap.splits", splits);
	if (splits)
		fails("%ld hugepages were split", splits);
}

static void can_be_mapped(void)
{
	char *at = with_slack(ODD), *end = at + ODD;

	if (mmap(end, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != end)
		fails("MAP_FIXED_NOREPLACE right behind: %s", strerror(errno));
	munmap(at, ODD + PAGE);
	at = with_slack(ODD);
	end = at + ODD;
	if (mmap(end, PAGE, RW, PLAIN, -1, 0) != end)
		fails("a hint right behind was not taken");
	if (is_mapped(end + PAGE) && on())
		fails("slack is left behind what was mapped into it");
	munmap(at, ODD);
	munmap(end, PAGE);
	at = with_slack(ODD);
	end = at + ODD;
	if (mmap(end, HUGE, RW, PLAIN | MAP_FIXED, -1, 0) != end)
		fails("MAP_FIXED: %s", strerror(errno));
	expect(at, ODD, 1, "in front");
	expect(end, HUGE, 0, "mapped");
	munmap(at, ODD);
	expect(end, HUGE, 0, "mapped, and its neighbour unmapped");
}

/* As programs do that look for free addresses. */
static void refused_drops_nothing(void)
{
	char *at = with_slack(HUGE + ODD), *elsewhere;
	long slack = slack_kib();

	if (mmap(at, 4 * HUGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED || errno != EEXIST)
		fails("a mapping replaces another");
	elsewhere = mmap(at + HUGE, ODD / 2, PROT_READ, PLAIN, -1, 0);
	munmap(elsewhere, ODD / 2);
	if (slack_kib() != slack)
		fails("%ld KiB of slack were %ld", slack_kib(), slack);
	expect(at, HUGE + ODD, 1, "the mapping");
}

static void can_be_attached(void)
{
	char *at = with_slack(ODD), *end = at + ODD;
	int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);

	if (id < 0)
		skips("no System V shared memory");
	if (shmat(id, end, 0) != end)
		fails("shmat() right behind: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
}

static bool grows_into_slack(void)
{
	return on() && read_number(EVENTS, "abh_mmap_grown ") >= 0;
}

static void grows_in_place(void)
{
	char *at = with_slack(ODD);
	long splits;

	if (grows_into_slack())
		fill(at + ODD, HUGE - ODD, 7);
	splits = read_number("/proc/vmstat", "thp_split_pmd");
	if (mremap(at, ODD, ODD + 16 * PAGE, 0) != at)
		fails("mremap() within the slack: %s", strerror(errno));
	if (grows_into_slack() && read_number("/proc/vmstat", "thp_split_pmd") != splits)
		fails("growing into slack has split a hugepage");
	expect(at, ODD, 1, "what was there");
	expect(at + ODD, 16 * PAGE, 0, "what is new");
	fill(at, ODD + 16 * PAGE, 2);
	/* The place above was taken by nobody. */
	if (mremap(at, ODD + 16 * PAGE, HUGE, 0) != at)
		fails("mremap() to the slack's end: %s", strerror(errno));
	munmap(at, HUGE);
	left(at, "munmap() after mremap()");
	at = with_slack(ODD);
	if (mremap(at, ODD, MIB, 0) != at || is_mapped(at + MIB))
		fails("mremap() to less left something");
}

static void moves(void)
{
	char *at = with_slack(ODD), *to = map(4 * HUGE) + HUGE, *got;

	got = mremap(at, ODD, ODD, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (got != to)
		fails("mremap(): %s", strerror(errno));
	expect(got, ODD, 1, "what was moved");
	left(at, "mremap()");
}

static void is_nobodys(void)
{
	char *at;

#define REFUSED(call)                                                                                                  \
	do {                                                                                                           \
		at = with_slack(ODD) + ODD - PAGE;                                                                     \
		errno = 0;                                                                                             \
		if ((call) != -1 || errno != ENOMEM)                                                                   \
			fails("%s: %s", #call, strerror(errno));                                                       \
		if (is_mapped(at + PAGE))                                                                              \
			fails("%s left something", #call);                                                             \
		munlockall();                                                                                          \
		munmap(at + PAGE - ODD, ODD);                                                                          \
	} while (0)

	REFUSED(madvise(at, 2 * PAGE, MADV_DONTNEED));
	REFUSED(madvise(at, 2 * PAGE, MADV_HUGEPAGE));
	REFUSED(mprotect(at, 2 * PAGE, PROT_READ));
	REFUSED(mlock(at, 2 * PAGE));
}

/* Calls that change the program's part only. */
static void owner_changes(void)
{
	static const int advice[] = { MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTFORK, MADV_WIPEONFORK, MADV_MERGEABLE };

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		long vmas = count_vmas(), size = of_process("VmSize");
		char *at = with_slack(ODD);
		pid_t child;

		madvise(at, ODD, advice[i]);
		child = fork();
		if (child == 0) {
			if (advice[i] == MADV_DONTFORK)
				left(at, "fork()");
			munmap(at, ODD);
			left(at, "the child's munmap()");
			_exit(0);
		}
		wait_for(child);
		munmap(at, ODD);
		left(at, "munmap()");
		if (count_vmas() != vmas || of_process("VmSize") != size)
			fails("something is left after advice %d", advice[i]);
	}
}

static void lock_takes_what_it_names(void)
{
	char *at = with_slack(ODD);
	long locked;

	if (mlock(at, ODD))
		skips("mlock() is refused");
	locked = of_process("VmLck");
	if (locked != ODD / KIB)
		fails("%ld KiB are locked, %lu were named", locked, ODD / KIB);
	munlock(at, ODD);
	munmap(at, ODD);
	left(at, "munmap() after mlock()");
}

static void fork_and_slack(void)
{
	char *at = with_slack(ODD);
	pid_t child = fork();

	if (child == 0) {
		expect(at, ODD, 1, "child's");
		fill(at, ODD, 2);
		munmap(at, ODD);
		left(at, "the child's munmap()");
		munmap(with_slack(ODD), ODD);
		_exit(0);
	}
	wait_for(child);
	expect(at, ODD, 1, "parent's");
	munmap(at, ODD);
	left(at, "the parent's munmap()");
}

/* mremap() rounds a length of hugetlb memory up, and so reaches into what it has not named. */
static void moved_onto_it(void)
{
	char *at = with_slack(HUGE + ODD), *top = (char *)(((uintptr_t)at + HUGE) & ~(HUGE - 1)), *from;

	if (write_file("/proc/sys/vm/nr_hugepages", "2"))
		skips("no hugetlb pages");
	from = mmap(NULL, HUGE, RW, PLAIN | MAP_HUGETLB, -1, 0);
	if (from == MAP_FAILED)
		skips("no hugetlb page is free");
	fill(from, HUGE, 2);
	if (mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, top) != top)
		fails("mremap() onto the last hugepage: %s", strerror(errno));
	expect(at, (size_t)(top - at), 1, "what is before it");
	expect(top, HUGE, 2, "what was moved");
	if (slack_kib())
		fails("%ld KiB of slack are left below what was moved there", slack_kib());
	if (munmap(top, HUGE) || munmap(at, (size_t)(top - at)))
		fails("munmap(): %s", strerror(errno));
	left(at, "munmap()");
	write_file("/proc/sys/vm/nr_hugepages", "0");
}

const struct test slack_in_the_way[] = {
	{ "munmap leaves no slack", munmap_leaves_nothing, true },
	{ "munmap splits nothing", munmap_splits_nothing, true },
	{ "slack can be mapped", can_be_mapped, true },
	{ "slack can be attached to", can_be_attached, true },
	{ "what maps nothing drops nothing", refused_drops_nothing, true },
	{ "mremap in place", grows_in_place, true },
	{ "mremap to elsewhere", moves, true },
	{ "slack is nobody's", is_nobodys, true },
	{ "calls on the program's part", owner_changes, true },
	{ "mlock locks what it names", lock_takes_what_it_names, true },
	{ "fork", fork_and_slack, true },
	{ "mremap() of hugetlb memory onto it", moved_onto_it, true },
	{ NULL, NULL, false },
};
