// SPDX-License-Identifier: MIT
/* What gives memory back, or moves it, splits no hugepage that it could leave whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define LESS (MIB + 128 * KIB) /* still above the threshold */

static long splits(void)
{
	return read_number("/proc/vmstat", "thp_split_pmd");
}

/* As many as were split in all cases of a theme would hide one of a case. */
static long unsplit(long before, const char *what)
{
	long more = splits() - before;

	value(what, more);
	if (on() && more)
		fails("%s: %ld hugepages were split", what, more);
	return more;
}

/* A mapping of LESS that had more: what it gave up is not its own, and comes back as zeros. */
static void is_less(char *at, const char *how)
{
	long before = splits();

	expect(at, LESS, 1, how);
	if (on() && slack_kib() != (long)((HUGE - LESS) / KIB))
		fails("%s: %ld KiB of slack", how, slack_kib());
	if (on() && in_hugepages(at, LESS) != LESS)
		fails("%s: %zu KiB in hugepages", how, in_hugepages(at, LESS) / KIB);
	if (!on() && is_mapped(at + LESS))
		fails("%s left something", how);
	if (mremap(at, LESS, ODD, 0) != at)
		fails("%s, and growing again: %s", how, strerror(errno));
	expect(at, LESS, 1, how);
	expect(at + LESS, ODD - LESS, 0, how);
	unsplit(before, "grow_again.splits");
	munmap(at, ODD);
	left(at, how);
}

static void shrinks(void)
{
	char *at = with_slack(ODD);
	long before = splits();

	if (munmap(at + LESS, ODD - LESS))
		fails("munmap() of the tail: %s", strerror(errno));
	unsplit(before, "munmap_tail.splits");
	is_less(at, "munmap() of the tail");

	at = with_slack(ODD);
	before = splits();
	if (mremap(at, ODD, LESS, 0) != at)
		fails("mremap() to less: %s", strerror(errno));
	unsplit(before, "mremap_less.splits");
	is_less(at, "mremap() to less");
}

/* A mapping of whole hugepages has no slack before it shrinks. */
static void whole_shrinks(void)
{
	char *at = map(2 * HUGE);
	long before;

	fill(at, 2 * HUGE, 1);
	before = splits();
	if (mremap(at, 2 * HUGE, HUGE + LESS, 0) != at)
		fails("mremap() to less: %s", strerror(errno));
	if (on() && slack_kib() != (long)((HUGE - LESS) / KIB))
		fails("%ld KiB of slack", slack_kib());
	/* The only one here that stock has in hugepages, too. */
	if (!unsplit(before, "whole_shrinks.splits") && !on() && thp_always())
		fails("stock splits nothing either");
	/* What stays is in nobody's way. */
	if (mmap(at + HUGE + LESS, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != at + HUGE + LESS)
		fails("MAP_FIXED_NOREPLACE behind it: %s", strerror(errno));
	expect(at + HUGE + LESS, PAGE, 0, "mapped behind it");
	munmap(at, HUGE + LESS + PAGE);
	if (slack_kib() || is_mapped(at) || is_mapped(at + 2 * HUGE - PAGE))
		fails("munmap() left something");
}

/* Of a hugepage that is hardly used, or that is none, nothing is kept. */
static void not_kept(void)
{
	char *at = with_slack(ODD);

	if (mremap(at, ODD, MIB, 0) != at || slack_kib() || is_mapped(at + MIB))
		fails("%ld KiB are kept behind 1 MiB", slack_kib());
	munmap(at, MIB);
	at = map(2 * HUGE);
	madvise(at, 2 * HUGE, MADV_NOHUGEPAGE);
	fill(at, 2 * HUGE, 1);
	if (mremap(at, 2 * HUGE, HUGE + LESS, 0) != at || slack_kib() || is_mapped(at + HUGE + LESS))
		fails("%ld KiB are kept of what has advice", slack_kib());
	munmap(at, HUGE + LESS);
	at = map(2 * HUGE);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	fill(at, 2 * HUGE, 1);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (mremap(at, 2 * HUGE, HUGE + LESS, 0) != at || slack_kib() || is_mapped(at + HUGE + LESS))
		fails("%ld KiB are kept in small pages", slack_kib());
	munmap(at, HUGE + LESS);
}

/* Moves whole hugepages, and slack on both sides. */
static void moves_whole(void)
{
	for (int i = 0; i < 8; i++) {
		size_t more = 2 * HUGE + (size_t)i * 512 * KIB;
		char *at = map(ODD), *to, *block;
		long before, vmas, size;

		fill(at, ODD, 1);
		if (on()) /* as one that writes too far does */
			fill(at + ODD, end_of(at) - (uintptr_t)(at + ODD), 7);
		block = mmap((char *)(end_of(at + ODD - PAGE)), PAGE, PROT_READ, PLAIN, -1, 0); /* what is behind */
		before = splits();
		vmas = count_vmas();
		size = of_process("VmSize") - slack_kib();
		to = mremap(at, ODD, more, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			fails("mremap() to more: %s", strerror(errno));
		expect(to, ODD, 1, "what was moved");
		expect(to + ODD, more - ODD, 0, "what is new");
		unsplit(before, "mremap_more.splits");
		if (on() && in_hugepages(to, ODD) != ODD)
			fails("%zu of %lu KiB are in hugepages", in_hugepages(to, ODD) / KIB, ODD / KIB);
		if (of_process("VmSize") - slack_kib() != size + (long)((more - ODD) / KIB))
			fails("%ld KiB count, %ld before", of_process("VmSize") - slack_kib(), size);
		fill(to, more, 2);
		munmap(to, more);
		munmap(block, PAGE);
		if (slack_kib() || count_vmas() > vmas)
			fails("%ld KiB of slack are left, and %ld VMAs", slack_kib(), count_vmas() - vmas);
	}
}

/* Asked for page by page, as realloc() does; what it was is where it ends up. */
static void grows_often(void)
{
	size_t bytes = 256 * KIB;
	char *at = map(bytes);

	fill(at, bytes, 1);
	while (bytes < 16 * MIB) {
		size_t more = bytes + bytes / 4 + PAGE;

		more &= ~(PAGE - 1);
		at = mremap(at, bytes, more, MREMAP_MAYMOVE);
		if (at == MAP_FAILED)
			fails("mremap(): %s", strerror(errno));
		expect(at + bytes, more - bytes, 0, "what is new");
		bytes = more;
		fill(at, bytes, 1);
	}
	munmap(at, bytes);
	if (slack_kib())
		fails("%ld KiB of slack are left", slack_kib());
}

/* Whether something stays of the last hugepage of a mapping that becomes shorter. */
int kept(void)
{
	size_t less = HUGE + LESS;
	char *at = map(2 * HUGE);

	fill(at, 2 * HUGE, 1);
	if (mremap(at, 2 * HUGE, less, 0) != at)
		fails("mremap(): %s", strerror(errno));
	return is_mapped(at + less);
}

static void with_strict_overcommit(void)
{
	int stays;

	if (write_file("/proc/sys/vm/overcommit_memory", "2"))
		skips("overcommit is as it is");
	stays = kept();
	write_file("/proc/sys/vm/overcommit_memory", "0");
	if (stays)
		fails("what was given up is still charged");
}

static void switched_off(void)
{
	for (int extend = 0; extend < 2; extend++) {
		int status;
		pid_t child;

		if (write_file(KNOBS "mmap_extend", "%d", extend))
			skips("no such switch");
		child = fork();
		if (child == 0) {
			execl("/proc/self/exe", "slack", "kept", NULL);
			_exit(3);
		}
		waitpid(child, &status, 0);
		write_file(KNOBS "mmap_extend", "1");
		if (!WIFEXITED(status) || WEXITSTATUS(status) != (on() && extend))
			fails("with mmap_extend %d: status %#x", extend, (unsigned)status);
	}
}

static void is_given_back(void)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE, MADV_COLD };

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		char *at = with_slack(ODD);
		long before = splits(), rss = of_process("VmRSS");

		if (madvise(at, ODD, advice[i]))
			fails("madvise(%d): %s", advice[i], strerror(errno));
		unsplit(before, "madvise.splits");
		if (advice[i] == MADV_DONTNEED && rss - of_process("VmRSS") < (long)(ODD / KIB) - 64)
			fails("%ld KiB were given back", rss - of_process("VmRSS"));
		if (advice[i] == MADV_DONTNEED)
			expect(at, ODD, 0, "given back");
		fill(at, ODD, 2);
		expect(at, ODD, 2, "used again");
		munmap(at, ODD);
		left(at, "munmap()");
	}
}

static char *watched;

static void grow_watched(void)
{
	if (mremap(watched + HUGE, ODD, ODD + 64 * KIB, 0) != watched + HUGE)
		fails("mremap(): %s", strerror(errno));
	fill(watched + HUGE + ODD, 64 * KIB, 2);
}

/* While a userfaultfd is told of what is given back, that grows: what is new is not given back. */
static void grows_while_told(void)
{
	struct advice given = { watched = with_slack(HUGE + ODD), HUGE + ODD, MADV_DONTNEED, -1 };
	int handle = watch(watched, HUGE, UFFD_FEATURE_EVENT_REMOVE);

	expect_told(told_by(handle, give_back, &given, grow_watched), UFFD_EVENT_REMOVE, watched, watched + HUGE);
	if (given.result)
		fails("madvise() fails");
	expect(watched + HUGE + ODD, 64 * KIB, 2, "what came meanwhile");
}

/* The last piece of a hugepage that comes and goes. */
static void last_piece(void)
{
	char *at[40], *again;
	long before;

	for (int i = 0; i < 40; i++) /* the first 16 are small, the others open a hugepage */
		fill(at[i] = map(64 * KIB), 64 * KIB, 1);
	before = splits();
	munmap(at[39], 64 * KIB);
	again = map(64 * KIB);
	expect(again, 64 * KIB, 0, "the piece that came again");
	unsplit(before, "last_piece.splits");
	if (has_pieces() && again != at[39])
		fails("it is at %p, expected %p", (void *)again, (void *)at[39]);
	expect(at[38], 64 * KIB, 1, "the one before");
}

/* Whatever was kept, taken again and moved: in the end all is gone, and nothing is accounted. */
static void comes_and_goes(void)
{
	long vmas = count_vmas(), size = of_process("VmSize"), page_tables = of_process("VmPTE");
	long committed = read_number("/proc/meminfo", "Committed_AS");
	unsigned random = 1;

	for (int i = 0; i < 200; i++) {
		size_t bytes = 0;
		char *at = NULL;

		for (int step = 0; step < 8; step++) {
			size_t now = PAGE * (1 + (random = random * 1103515245 + 12345) / 65536 % 1500);

			if (!at)
				at = map(now);
			else if (now < bytes && random / 256 % 2)
				munmap(at + now, bytes - now);
			else
				at = mremap(at, bytes, now, MREMAP_MAYMOVE);
			if (at == MAP_FAILED)
				fails("mremap(): %s", strerror(errno));
			if (now > bytes)
				expect(at + bytes, now - bytes, 0, "what is new");
			bytes = now;
			fill(at, bytes, step + 1);
		}
		munmap(at, bytes);
	}
	value("all_gone.vmas", count_vmas() - vmas);
	value("all_gone.vmsize_kib", of_process("VmSize") - size);
	value("all_gone.vmpte_kib", of_process("VmPTE") - page_tables);
	committed = read_number("/proc/meminfo", "Committed_AS") - committed;
	value("all_gone.committed_kib", committed);
	if (count_vmas() != vmas || of_process("VmSize") != size || slack_kib() || committed > 256)
		fails("%ld VMAs, %ld KiB, %ld KiB of slack and %ld KiB committed are left", count_vmas() - vmas,
		      of_process("VmSize") - size, slack_kib(), committed);
}

const struct test slack_release[] = {
	{ "what shrinks splits nothing", shrinks, true },
	{ "what has no slack yet shrinks and splits nothing", whole_shrinks, true },
	{ "what is hardly used is not kept", not_kept, true },
	{ "what grows moves whole", moves_whole, false },
	{ "what grows often", grows_often, false },
	{ "what comes and goes leaves nothing", comes_and_goes, false },
	{ "nothing is kept under strict overcommit", with_strict_overcommit, true },
	{ "nothing is kept without mmap_extend", switched_off, true },
	{ "what is given back splits nothing", is_given_back, true },
	{ "what is given back grows", grows_while_told, true },
	{ "the last piece comes and goes", last_piece, true },
	{ NULL, NULL, false },
};
