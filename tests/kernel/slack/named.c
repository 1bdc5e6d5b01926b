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
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define BYTES (3 * MIB + 512 * KIB)
enum {
	MAPPINGS = 12,
	LOCK,
	LOCK_ON_FAULT,
	BIND,
	NAME,
	PROTECT_READ,
	PROTECT_NONE,
	PROTECT_EXEC,
	PROTECT_KEY,
	LOCK_ALL,
	LOCK_LATER,
	GROW_IN_PLACE
};

static const struct {
	const char *name;
	int call, advice; /* call 0: madvise() */
} kinds[NAMED] = {
	{ "MADV_NORMAL", 0, MADV_NORMAL },
	{ "MADV_RANDOM", 0, MADV_RANDOM },
	{ "MADV_SEQUENTIAL", 0, MADV_SEQUENTIAL },
	{ "MADV_WILLNEED", 0, MADV_WILLNEED },
	{ "MADV_DONTNEED", 0, MADV_DONTNEED },
	{ "MADV_FREE", 0, MADV_FREE },
	{ "MADV_COLD", 0, MADV_COLD },
	{ "MADV_DONTFORK", 0, MADV_DONTFORK },
	{ "MADV_DOFORK", 0, MADV_DOFORK },
	{ "MADV_WIPEONFORK", 0, MADV_WIPEONFORK },
	{ "MADV_MERGEABLE", 0, MADV_MERGEABLE },
	{ "MADV_DONTDUMP", 0, MADV_DONTDUMP },
	{ "MADV_HUGEPAGE", 0, MADV_HUGEPAGE },
	{ "MADV_NOHUGEPAGE", 0, MADV_NOHUGEPAGE },
	{ "MADV_POPULATE_READ", 0, MADV_POPULATE_READ },
	{ "MADV_POPULATE_WRITE", 0, MADV_POPULATE_WRITE },
	{ "MADV_COLLAPSE", 0, 25 },
	{ "mlock", LOCK, 0 },
	{ "mlock2", LOCK_ON_FAULT, 0 },
	{ "mbind", BIND, 0 },
	{ "PR_SET_VMA", NAME, 0 },
	{ "mprotect to read", PROTECT_READ, 0 },
	{ "mprotect to none", PROTECT_NONE, 0 },
	{ "mprotect to execute", PROTECT_EXEC, 0 },
	{ "pkey_mprotect", PROTECT_KEY, 0 },
	{ "mlockall", LOCK_ALL, 0 },
	{ "mlockall of what comes", LOCK_LATER, 0 },
	{ "mremap that fails in place", GROW_IN_PLACE, 0 },
};

/* What a kernel has not it refuses: then nothing becomes of it, with ABH or without. */
static void say(size_t kind, char *at)
{
	unsigned long nodes = 1;

	switch (kinds[kind].call) {
	case 0:
		madvise(at, BYTES, kinds[kind].advice);
		break;
	case LOCK:
		mlock(at, BYTES);
		break;
	case LOCK_ON_FAULT:
		mlock2(at, BYTES, MLOCK_ONFAULT);
		break;
	case BIND:
		syscall(SYS_mbind, at, BYTES, MPOL_PREFERRED, &nodes, 8, 0);
		break;
	case NAME:
		prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, BYTES, "named");
		break;
	case PROTECT_READ:
	case PROTECT_NONE: /* and back, as what reserves memory first does */
		mprotect(at, BYTES, kinds[kind].call == PROTECT_READ ? PROT_READ : PROT_NONE);
		mprotect(at, BYTES, RW);
		break;
	case PROTECT_EXEC:
		mprotect(at, BYTES, RW | PROT_EXEC);
		break;
	case LOCK_ALL: /* and not for good, as this is of all that the process has */
	case LOCK_LATER:
		mlockall(kinds[kind].call == LOCK_ALL ? MCL_CURRENT | MCL_ONFAULT : MCL_FUTURE);
		munlockall();
		break;
	case GROW_IN_PLACE: /* what was mapped before lies behind, but for the first */
		if (mremap(at, BYTES, BYTES + HUGE, 0) != MAP_FAILED)
			mremap(at, BYTES + HUGE, BYTES, 0);
		break;
	default:
		syscall(SYS_pkey_mprotect, at, BYTES, PROT_READ, -1);
		syscall(SYS_pkey_mprotect, at, BYTES, RW, -1);
	}
}

/* Hugepages of mappings that are made, spoken of and filled one after the other; or filled first. */
static long hugepages(size_t kind, bool filled_first)
{
	long before = read_number("/proc/self/smaps_rollup", "AnonHugePages"), found;
	char *at[MAPPINGS];

	for (int i = 0; i < MAPPINGS; i++) {
		at[i] = map(BYTES);
		if (filled_first)
			fill(at[i], BYTES, 1);
		say(kind, at[i]);
		if (!filled_first)
			fill(at[i], BYTES, 1);
	}
	found = (read_number("/proc/self/smaps_rollup", "AnonHugePages") - before) / (long)(HUGE / KIB);
	for (int i = 0; i < MAPPINGS; i++)
		munmap(at[i], BYTES);
	return found;
}

static void never_fewer(void)
{
	long counted = of_process("VmLck") + of_process("VmData") + of_process("VmSize");
	int fewer = 0;

	for (size_t kind = 0; kind < NAMED; kind++)
		for (int first = 0; first < 2; first++) {
			long found = hugepages(kind, first);

			if (on() && found < off->named[kind][first]) {
				printf("# %s, %s: %ld hugepages of %d mappings, with ABH off %ld\n", kinds[kind].name,
				       first ? "then" : "before they are filled", found, MAPPINGS,
				       off->named[kind][first]);
				fewer++;
			}
			if (!on())
				off->named[kind][first] = found;
			if (kinds[kind].advice == MADV_HUGEPAGE)
				value(first ? "named.then_advised" : "named.advised", found);
		}
	if (fewer)
		fails("%d ways to speak of a mapping take hugepages away", fewer);
	if (of_process("VmLck") + of_process("VmData") + of_process("VmSize") != counted)
		fails("VmLck, VmData and VmSize are %ld KiB more than before",
		      of_process("VmLck") + of_process("VmData") + of_process("VmSize") - counted);
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
