// SPDX-License-Identifier: MIT
/* What gives memory back with advice, or moves it, splits no hugepage that it could leave whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

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
		size = of_process("VmSize");
		to = mremap(at, ODD, more, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			fails("mremap() to more: %s", strerror(errno));
		expect(to, ODD, 1, "what was moved");
		expect(to + ODD, more - ODD, 0, "what is new");
		unsplit(before, "mremap_more.splits");
		if (on() && in_hugepages(to, ODD) != ODD)
			fails("%zu of %lu KiB are in hugepages", in_hugepages(to, ODD) / KIB, ODD / KIB);
		if (of_process("VmSize") != size + (long)((more - ODD) / KIB))
			fails("%ld KiB count, %ld before", of_process("VmSize"), size);
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

/* Whatever was taken and moved: in the end all is gone, and nothing is accounted. */
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

static long committed(void)
{
	return read_number("/proc/meminfo", "Committed_AS") * (long)KIB;
}

/* A call commits so many bytes more than were committed before all of them. */
#define COMMITS(bytes, call)                                                                                           \
	do {                                                                                                           \
		call;                                                                                                  \
		if (committed() - before != (long)(bytes))                                                             \
			fails("%ld bytes are committed, expected %ld, after %s", committed() - before, (long)(bytes),  \
			      #call);                                                                                  \
	} while (0)

static void fork_and_wait(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* As in stock: what the program asked for, whatever becomes of it. */
static void commits_what_was_asked(void)
{
	size_t heap = 3 * MIB + 7 * PAGE;
	long before = committed();
	char *at;

	COMMITS(HUGE + ODD, at = map(HUGE + ODD));
	COMMITS(0, mprotect(at, HUGE + ODD, PROT_READ)); /* nothing is written there yet */
	COMMITS(HUGE + ODD, mprotect(at, HUGE + ODD, RW));
	COMMITS(HUGE + ODD, fill(at, HUGE + ODD, 1));
	COMMITS(HUGE + ODD, mprotect(at, HUGE + ODD, PROT_READ));
	COMMITS(HUGE + ODD, mprotect(at, HUGE + ODD, RW));
	COMMITS(HUGE + ODD + PAGE, at = mremap(at, HUGE + ODD, HUGE + ODD + PAGE, MREMAP_MAYMOVE));
	COMMITS(2 * HUGE + ODD, at = mremap(at, HUGE + ODD + PAGE, 2 * HUGE + ODD, MREMAP_MAYMOVE));
	COMMITS(2 * HUGE + ODD, fork_and_wait());
	COMMITS(2 * HUGE + ODD, madvise(at, 2 * HUGE + ODD, MADV_DONTFORK));
	COMMITS(2 * HUGE + ODD, fork_and_wait());
	COMMITS(HUGE + ODD, at = mremap(at, 2 * HUGE + ODD, HUGE + ODD, MREMAP_MAYMOVE));
	COMMITS(HUGE + PAGE, munmap(at + HUGE + PAGE, ODD - PAGE));
	COMMITS(HUGE, munmap(at, PAGE));
	COMMITS(0, munmap(at + PAGE, HUGE));
	for (long i = 1; i <= 9; i++) /* some open a hugepage, and some fill it */
		COMMITS(i * (long)ARENA, map(ARENA));
	before = committed();
	COMMITS(heap, sbrk((intptr_t)heap));
	COMMITS(heap, fill((char *)sbrk(0) - heap, heap, 1));
	COMMITS(heap - MIB, sbrk(-(intptr_t)MIB));
	COMMITS(heap - PAGE, sbrk(MIB - PAGE));
	COMMITS(heap - PAGE, fork_and_wait());
	COMMITS(heap + HUGE, sbrk(HUGE + PAGE));
	COMMITS(0, sbrk(-(intptr_t)(heap + HUGE)));
}

const struct test slack_release[] = {
	{ "what grows moves whole", moves_whole, false },
	{ "what grows often", grows_often, false },
	{ "what comes and goes leaves nothing", comes_and_goes, false },
	{ "what was asked for is committed", commits_what_was_asked, false },
	{ "what is given back splits nothing", is_given_back, true },
	{ "what is given back grows", grows_while_told, true },
	{ NULL, NULL, false },
};
