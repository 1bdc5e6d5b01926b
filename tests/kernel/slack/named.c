// SPDX-License-Identifier: MIT
/* What a program says of exactly its mapping costs it no hugepage: never fewer with ABH than without. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define BYTES (3 * MIB + 508 * KIB)
#define MOST 96 /* mappings */
enum {
	LOCK = 1,
	LOCK_ON_FAULT,
	UNLOCK,
	BIND,
	NAME,
	PROTECT_READ,
	PROTECT_NONE,
	PROTECT_EXEC,
	PROTECT_KEY,
	LOCK_ALL,
	LOCK_ALL_ON_FAULT,
	LOCK_LATER,
	GROW_IN_PLACE,
	OF_PROCESS
};

static const struct {
	const char *name;
	int call, advice; /* call 0: madvise() */
	int undone;       /* advice before it */
} kinds[NAMED] = {
	{ "MADV_NORMAL", 0, MADV_NORMAL, MADV_RANDOM },
	{ "MADV_RANDOM", 0, MADV_RANDOM, 0 },
	{ "MADV_SEQUENTIAL", 0, MADV_SEQUENTIAL, 0 },
	{ "MADV_WILLNEED", 0, MADV_WILLNEED, 0 },
	{ "MADV_DONTNEED", 0, MADV_DONTNEED, 0 },
	{ "MADV_DONTNEED_LOCKED", 0, 24, 0 },
	{ "MADV_FREE", 0, MADV_FREE, 0 },
	{ "MADV_COLD", 0, MADV_COLD, 0 },
	{ "MADV_PAGEOUT", 0, MADV_PAGEOUT, 0 },
	{ "MADV_DONTFORK", 0, MADV_DONTFORK, 0 },
	{ "MADV_DOFORK", 0, MADV_DOFORK, MADV_DONTFORK },
	{ "MADV_WIPEONFORK", 0, MADV_WIPEONFORK, 0 },
	{ "MADV_KEEPONFORK", 0, MADV_KEEPONFORK, MADV_WIPEONFORK },
	{ "MADV_MERGEABLE", 0, MADV_MERGEABLE, 0 },
	{ "MADV_UNMERGEABLE", 0, MADV_UNMERGEABLE, MADV_MERGEABLE },
	{ "MADV_DONTDUMP", 0, MADV_DONTDUMP, 0 },
	{ "MADV_DODUMP", 0, MADV_DODUMP, MADV_DONTDUMP },
	{ "MADV_HUGEPAGE", 0, MADV_HUGEPAGE, 0 },
	{ "MADV_NOHUGEPAGE", 0, MADV_NOHUGEPAGE, 0 },
	{ "MADV_HUGEPAGE after all", 0, MADV_HUGEPAGE, MADV_NOHUGEPAGE },
	{ "MADV_POPULATE_READ", 0, MADV_POPULATE_READ, 0 },
	{ "MADV_POPULATE_WRITE", 0, MADV_POPULATE_WRITE, 0 },
	{ "MADV_COLLAPSE", 0, 25, 0 },
	{ "process_madvise", OF_PROCESS, 0, 0 },
	{ "mlock", LOCK, 0, 0 },
	{ "mlock2", LOCK_ON_FAULT, 0, 0 },
	{ "munlock", UNLOCK, 0, 0 },
	{ "mbind", BIND, 0, 0 },
	{ "PR_SET_VMA", NAME, 0, 0 },
	{ "mprotect to read", PROTECT_READ, 0, 0 },
	{ "mprotect to none", PROTECT_NONE, 0, 0 },
	{ "mprotect to execute", PROTECT_EXEC, 0, 0 },
	{ "pkey_mprotect", PROTECT_KEY, 0, 0 },
	{ "mlockall", LOCK_ALL, 0, 0 },
	{ "mlockall on fault", LOCK_ALL_ON_FAULT, 0, 0 },
	{ "mlockall of what comes", LOCK_LATER, 0, 0 },
	{ "mremap that fails in place", GROW_IN_PLACE, 0, 0 },
};

/*
 * What is spoken of: so many mappings, or pieces of the heap. Each in turn is mapped, spoken of and filled, as one of
 * the ways says; what follows a bar, when all have been through what is before it.
 */
static const struct {
	const char *name;
	size_t bytes;
	int count;
	bool heap;
	const char *ways[WAYS];
} shapes[SHAPES] = {
	{ "mappings", BYTES, 8, false, { "msf", "mfsf", "m|s|f", "m|f|s|f" } },
	{ "arenas", ARENA, 8, false, { "ms|f", "m|s|f", "m|f|s|f" } },
	{ "small arenas", 64 * KIB, MOST, false, { "ms|f", "m|s|f", "m|f|s|f" } },
	{ "a heap", 7 * MIB + 512 * KIB, 1, true, { "msf", "mfsf" } },
	{ "pieces of a heap", BYTES, 4, true, { "msf", "mfsf", "m|s|f", "m|f|s|f" } },
};

/*
 * Fewer are known of: mlockall(MCL_CURRENT) drops all slack, as it would be filled; and growth in place, by more than
 * the slack behind, drops that, and what lies before.
 */
static bool is_known(size_t shape, size_t kind)
{
	return !shape && (kinds[kind].call == LOCK_ALL || kinds[kind].call == GROW_IN_PLACE);
}

/* What a kernel has not it refuses: then nothing becomes of it, with ABH or without. */
static long say(size_t kind, char *at, size_t bytes)
{
	struct iovec range = { at, bytes };
	unsigned long nodes = 1;
	long result;

	switch (kinds[kind].call) {
	case 0:
		if (kinds[kind].undone)
			madvise(at, bytes, kinds[kind].undone);
		return madvise(at, bytes, kinds[kind].advice);
	case OF_PROCESS:
		result = syscall(SYS_pidfd_open, getpid(), 0);
		return syscall(SYS_process_madvise, result, &range, 1, MADV_COLD, 0) < 0;
	case LOCK:
		return mlock(at, bytes);
	case LOCK_ON_FAULT:
		return mlock2(at, bytes, MLOCK_ONFAULT);
	case UNLOCK:
		return mlock(at, bytes) ? -1 : munlock(at, bytes);
	case BIND:
		return syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, &nodes, 8, 0);
	case NAME:
		return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, "named");
	case PROTECT_READ:
	case PROTECT_NONE: /* and back, as what reserves memory first does */
		mprotect(at, bytes, kinds[kind].call == PROTECT_READ ? PROT_READ : PROT_NONE);
		return mprotect(at, bytes, RW);
	case PROTECT_EXEC:
		return mprotect(at, bytes, RW | PROT_EXEC);
	case LOCK_ALL: /* and not for good, as this is of all that the process has */
		result = mlockall(MCL_CURRENT);
		munlockall();
		return result;
	case LOCK_ALL_ON_FAULT:
	case LOCK_LATER:
		result = mlockall(kinds[kind].call == LOCK_LATER ? MCL_FUTURE : MCL_CURRENT | MCL_ONFAULT);
		munlockall();
		return result;
	case GROW_IN_PLACE: /* what was mapped before lies behind, but for the first */
		if (mremap(at, bytes, bytes + HUGE, 0) != MAP_FAILED)
			mremap(at, bytes + HUGE, bytes, 0);
		return 0;
	default:
		syscall(SYS_pkey_mprotect, at, bytes, PROT_READ, -1);
		return syscall(SYS_pkey_mprotect, at, bytes, RW, -1);
	}
}

static long counted(void)
{
	return of_process("VmLck") + of_process("VmData") + of_process("VmSize");
}

/* Hugepages of what is mapped, filled and spoken of in one of the ways. */
static short hugepages(size_t shape, size_t kind, const char *way)
{
	long before = read_number("/proc/self/smaps_rollup", "AnonHugePages"), size = counted(), found;
	size_t bytes = shapes[shape].bytes;
	char *heap = sbrk(0), *at[MOST];

	/* Where the heap was drawn to lie does not matter. */
	if (shapes[shape].heap)
		brk((void *)(((uintptr_t)heap | (HUGE - 1)) + 1 + 100 * PAGE));
	for (const char *end; *way; way = end + !!*end) {
		end = strchrnul(way, '|');
		for (int i = 0; i < shapes[shape].count; i++)
			for (const char *step = way; step < end; step++)
				if (*step == 'm')
					at[i] = shapes[shape].heap ? sbrk((intptr_t)bytes) : map(bytes);
				else if (*step == 's')
					off->said[kind] |= !say(kind, at[i], bytes);
				else
					for (size_t page = 0; page < bytes; page += 64 * KIB)
						*(volatile char *)(at[i] + page) = 1;
	}
	found = read_number("/proc/self/smaps_rollup", "AnonHugePages") - before;
	for (int i = 0; i < shapes[shape].count && !shapes[shape].heap; i++)
		munmap(at[i], bytes);
	if (brk(heap) || counted() != size)
		fails("after %s VmLck, VmData and VmSize are %ld KiB more", kinds[kind].name, counted() - size);
	return (short)(found / (long)(HUGE / KIB));
}

/* How many ways take hugepages away, with so much slack and surplus. */
static int count_fewer(unsigned long bound)
{
	int fewer = 0;

	bound_to(bound);
	for (size_t shape = 0; shape < SHAPES; shape++) {
		int some = 0;

		for (size_t i = 0; i < NAMED * WAYS; i++) {
			const char *way = shapes[shape].ways[i % WAYS];
			short *found = off->named[shape][i];
			bool known = is_known(shape, i / WAYS);
			pid_t child = way ? fork() : -1;

			if (!way)
				continue;
			if (child == 0) {
				found[on()] = hugepages(shape, i / WAYS, way);
				_exit(0);
			}
			wait_for(child);
			some += found[0] > 0;
			if (!on() || found[1] >= found[0])
				continue;
			printf("# %s, %s of %s, at most %lu KiB more: %d hugepages, with ABH off %d%s\n", way,
			       kinds[i / WAYS].name, shapes[shape].name, bound / KIB, found[1], found[0],
			       known ? ", as is known" : "");
			fewer += !known;
		}
		/* MADV_COLLAPSE makes some where nothing else does. */
		if (some < NAMED)
			fails("%s: only %d cases have hugepages to lose", shapes[shape].name, some);
	}
	return fewer;
}

/* As shipped, as policy abh of the bench has it, and without a bound, as other cases are. */
static void never_fewer(void)
{
	int fewer = count_fewer(2 * MIB);

	/* The kernel that has KUnit tests is one that watches itself, and takes ten times as long. */
	if (on() && access("/sys/kernel/debug/kunit", F_OK)) {
		fewer += count_fewer(MIB);
		fewer += count_fewer(1ul << 40);
	}
	for (size_t kind = 0; kind < NAMED; kind++)
		if (!off->said[kind])
			printf("# %s is refused\n", kinds[kind].name);
	if (fewer)
		fails("%d ways to speak of memory take hugepages away", fewer);
}

/* What counts is what was named, with other rights too, and in a child that has not got it. */
static void counts_what_was_named(void)
{
	static const int rights[] = { PROT_READ, PROT_NONE, RW | PROT_EXEC, RW };
	long locked = of_process("VmLck"), size = of_process("VmSize"), data = of_process("VmData");
	char *at = map(ODD), *other = map(BYTES);
	pid_t child;

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		long more = rights[i] & PROT_WRITE ? (long)(ODD / KIB) : 0;

		if (mprotect(at, ODD, rights[i]))
			fails("mprotect(): %s", strerror(errno));
		if (of_process("VmData") != data + (long)(BYTES / KIB) + more)
			fails("with rights %d, %ld KiB of data more", rights[i], of_process("VmData") - data);
	}
	if (!mlock(at, ODD) && of_process("VmLck") != locked + (long)(ODD / KIB))
		fails("%ld KiB are locked, %lu were named", of_process("VmLck") - locked, ODD / KIB);
	madvise(other, BYTES, MADV_DONTFORK);
	child = fork();
	if (child == 0) {
		if (of_process("VmSize") != size + (long)(ODD / KIB) ||
		    of_process("VmData") != data + (long)(ODD / KIB))
			fails("the child has %ld KiB more, %ld of data", of_process("VmSize") - size,
			      of_process("VmData") - data);
		if (on() && slack_kib() != (long)((HUGE - ODD) / KIB))
			fails("the child has %ld KiB of slack", slack_kib());
		munmap(at, ODD);
		_exit(of_process("VmSize") != size);
	}
	wait_for(child);
	munmap(at, ODD);
	munmap(other, BYTES);
	if (of_process("VmLck") != locked || of_process("VmSize") != size || of_process("VmData") != data)
		fails("%ld KiB locked, %ld in all, %ld of data are left", of_process("VmLck") - locked,
		      of_process("VmSize") - size, of_process("VmData") - data);
}

const struct test slack_named[] = {
	{ "what is named keeps its hugepages", never_fewer, false },
	{ "what is named is what counts", counts_what_was_named, false },
	{ NULL, NULL, false },
};
