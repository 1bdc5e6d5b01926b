// SPDX-License-Identifier: MIT
/* Limits: what stock grants is granted. For RLIMIT_AS and RLIMIT_DATA of mappings see slack/limits.c. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abh.h"
#include "../cases.h"
#include "semantics.h"

#define ADMIN_RESERVE "/proc/sys/vm/admin_reserve_kbytes"
#define USER_RESERVE "/proc/sys/vm/user_reserve_kbytes"

/* How many mappings a process gets before it is refused. */
static long count_maps(size_t bytes, int flags, long most)
{
	long n = 0;

	while (n < most && mmap(NULL, bytes, RW, flags, -1, 0) != MAP_FAILED)
		n++;
	return n;
}

static void at_least(long got, long stock, const char *what)
{
	value(what, got);
	if (got < stock)
		fails("%s: %ld granted, stock grants %ld", what, got, stock);
}

static void exactly(long got, long stock, const char *what)
{
	value(what, got);
	if (got != stock)
		fails("%s: %ld granted, stock grants %ld", what, got, stock);
}

static void rlimit_data_heap(void)
{
	long size = of_process("VmData") * (long)KIB, n = 0;

	limit(RLIMIT_DATA, size + 10 * (long)ODD);
	while (n < 100 && sbrk(ODD) != (void *)-1)
		n++;
	exactly(n, 10, "RLIMIT_DATA.heap");
}

/* By single pages, so that nearly all are of the surplus. */
static void rlimit_as_heap(void)
{
	long size = of_process("VmSize") * (long)KIB, n = 0;

	grow(ODD + 100);
	limit(RLIMIT_AS, size + (long)(ODD + 101 * PAGE));
	while (n < 1000 && sbrk(PAGE) != (void *)-1)
		n++;
	exactly(n, 100, "RLIMIT_AS.heap_pages");
}

static void overcommit(void)
{
	long free, n, admin = read_number(ADMIN_RESERVE, ""), user = read_number(USER_RESERVE, "");

	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("/proc/sys/vm/overcommit_memory cannot be written");
	/* Strict: what is mapped counts. A part is kept back for the administrator and for this process. */
	write_file(ADMIN_RESERVE, "0");
	write_file(USER_RESERVE, "0");
	free = (read_number("/proc/meminfo", "CommitLimit") - read_number("/proc/meminfo", "Committed_AS")) * (long)KIB;
	n = count_maps(ODD, PLAIN, 100000);
	write_file("/proc/sys/vm/overcommit_memory", "0");
	write_file(ADMIN_RESERVE, "%ld", admin);
	write_file(USER_RESERVE, "%ld", user);
	at_least(n, free / (long)ODD - 2, "overcommit.mappings"); /* 2: other processes change it meanwhile */
}

static void map_count(void)
{
	long n, before = read_number("/proc/sys/vm/max_map_count", "");

	if (write_file("/proc/sys/vm/max_map_count", "%ld", count_vmas() + 40))
		skips("/proc/sys/vm/max_map_count cannot be written");
	/* Stock merges neighbours, so that any number of them are one. */
	n = count_maps(ODD, PLAIN, 200);
	write_file("/proc/sys/vm/max_map_count", "%ld", before);
	at_least(n, 200, "max_map_count.mappings");
}

/* A program of which nothing is extended has stock's limit: it is not refused until there is one more than it says. */
static void map_count_of_all(void)
{
	long all, before = read_number("/proc/sys/vm/max_map_count", ""), max = count_vmas() + 40;

	if (write_file("/proc/sys/vm/max_map_count", "%ld", max))
		skips("/proc/sys/vm/max_map_count cannot be written");
	while (mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		;
	write_file("/proc/sys/vm/max_map_count", "%ld", before);
	all = count_vmas() - !!strstr(maps(), "[vsyscall]");
	exactly(all - max, 1, "max_map_count.all");
}

/*
 * Whether something fits into a group that has no room for the surplus and slack with it: then these were given back.
 * A child, as it is killed if not.
 */
static bool fits(void (*use)(void), const char *room)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		enter_group(room, "0");
		use();
		_exit(0);
	}
	waitpid(child, &status, 0);
	rmdir(GROUP);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skips("no memory control group");
	if (status && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL))
		fails("status %#x", (unsigned)status);
	return !status;
}

/* With the switch as it was it fits; where reclaim is as stock's, only what stock has does. */
static void fits_by_reclaim(void (*use)(void), const char *room)
{
	long unused = read_number(KNOBS "unused_kib", ""), most = read_number(PARTS "reclaim_zero_kib", "");
	bool with, without;

	write_file(KNOBS "unused_kib", NO_BOUND);
	with = fits(use, room);
	write_file(PARTS "reclaim_zero_kib", "2048");
	without = fits(use, room);
	write_file(PARTS "reclaim_zero_kib", "%ld", most);
	write_file(KNOBS "unused_kib", "%ld", unused);
	if (!with || without == on())
		fails("in %s: %s, and %s with reclaim as stock's", room, with ? "fits" : "killed",
		      without ? "fits" : "killed");
}

/* 12.5 MiB; with slack, 20. */
static void use_mappings(void)
{
	for (int i = 0; i < 10; i++)
		fill(map(ODD), ODD, 1);
}

static void memory_group(void)
{
	fits_by_reclaim(use_mappings, "16M");
}

/* 4 MiB of a heap with a surplus of nearly 2, and then 3 MiB more. */
static void use_heap(void)
{
	char *top = large_heap(), *more = map(3 * MIB);

	madvise(more, 3 * MIB, MADV_NOHUGEPAGE);
	fill(more, 3 * MIB, 2);
	expect(top - 4 * MIB, 4 * MIB, 1, "heap");
	expect(more, 3 * MIB, 2, "more");
}

static void memory_group_heap(void)
{
	fits_by_reclaim(use_heap, "8M");
}

#define SPARSE 4

/* How many hugepages that are nearly all zeros are left where memory is short. */
int sparse(void)
{
	char *at = (char *)(((uintptr_t)map((SPARSE + 1) * HUGE) + HUGE - 1) & ~(HUGE - 1));
	long before = read_number("/proc/self/smaps_rollup", "AnonHugePages");

	enter_group("64M", "0");
	madvise(at, SPARSE * HUGE, MADV_HUGEPAGE);
	for (int i = 0; i < SPARSE; i++)
		at[(size_t)i * HUGE] = 1;
	if (read_number("/proc/self/smaps_rollup", "AnonHugePages") - before != (long)(SPARSE * HUGE / KIB))
		return 99;
	write_file(GROUP "/memory.reclaim", "16M");
	return (int)((read_number("/proc/self/smaps_rollup", "AnonHugePages") - before) / (long)(HUGE / KIB));
}

static int sparse_of_program(bool refuses)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (refuses)
			prctl(PR_SET_ABH, PR_ABH_OFF, 0, 0, 0);
		execl("/proc/self/exe", "semantics", "sparse", NULL);
		_exit(98);
	}
	waitpid(child, &status, 0);
	rmdir(GROUP);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

/* Reclaim takes hugepages apart of those that have ABH, and not of others. */
static void others_stay(void)
{
	int ours = sparse_of_program(false), others = sparse_of_program(true);

	if (ours == SKIPPED && others == SKIPPED && access("/sys/fs/cgroup/cgroup.controllers", R_OK))
		skips("no memory control group");
	if (ours != (on() ? 0 : SPARSE) || others != SPARSE)
		fails("of %d hugepages %d are left, and %d of a program that refuses ABH", SPARSE, ours, others);
}

/* What is asked for fits, a hugepage with its slack does not: it must not be reclaimed for, and nobody be killed. */
static void memory_group_is_full(void)
{
	char *first, *last;

	enter_group("8M", "0");
	first = map(6 * MIB);
	madvise(first, 6 * MIB, MADV_NOHUGEPAGE);
	fill(first, 6 * MIB, 1);
	fill(last = map(ODD), ODD, 2);
	fill(grow(256 * KIB), 256 * KIB, 3);
	expect(first, 6 * MIB, 1, "first");
	expect(last, ODD, 2, "last");
	value("memory_group.oom", read_number(GROUP "/memory.events", "oom "));
	if (read_number(GROUP "/memory.events", "oom ") > 0)
		fails("the group was out of memory");
}

static void pressure(void)
{
	char *at[20];

	if (read_number("/proc/meminfo", "SwapTotal") <= 0)
		skips("no swap");
	/* What is over this waits until enough is swapped; over memory.max it would be ended where the disk is slow. */
	enter_group("max", "max");
	if (write_file(GROUP "/memory.high", "16M"))
		skips("the memory control group cannot be set");
	for (int i = 0; i < 20; i++)
		fill(at[i] = i % 2 ? grow(ODD) : map(ODD), ODD, i + 1);
	for (int i = 0; i < 20; i++)
		expect(at[i], ODD, i + 1, "after swapping");
	if (read_number("/proc/self/status", "VmSwap") <= 0)
		fails("nothing was swapped");
}

const struct test semantics_limits[] = {
	{ "RLIMIT_DATA and the heap", rlimit_data_heap, false },
	{ "RLIMIT_AS and the heap", rlimit_as_heap, false },
	{ "strict overcommit", overcommit, false },
	{ "vm.max_map_count", map_count, false },
	{ "vm.max_map_count of a small program", map_count_of_all, false },
	{ "memory control group: slack is given back", memory_group, false },
	{ "memory control group: the surplus is given back", memory_group_heap, false },
	{ "memory control group: others keep their hugepages", others_stay, false },
	{ "memory control group that is full", memory_group_is_full, false },
	{ "swapping under pressure", pressure, false },
	{ NULL, NULL, false },
};
