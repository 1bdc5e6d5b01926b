// SPDX-License-Identifier: MIT
/* What others hold or forbid: memory that a pipe still has, limits, seals, the end of the address space. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#define TASK_END 0x7ffffffff000ul /* x86-64, four levels */

/* A pipe that holds a page itself, not a copy. */
static int pipe_of(char *page)
{
	struct iovec range = { page, PAGE };
	int ends[2];

	if (pipe(ends) || vmsplice(ends[1], &range, 1, 0) != (ssize_t)PAGE)
		fails("vmsplice: %s", strerror(errno));
	return ends[0];
}

static void expect_in(int end, int seed)
{
	static char page[PAGE];

	if (read(end, page, PAGE) != (ssize_t)PAGE)
		fails("read: %s", strerror(errno));
	expect(page, PAGE, seed, "what the pipe holds");
}

/* The program has given it up: what is put there later is other memory. */
static void heap_that_a_pipe_holds(void)
{
	char *top = large_heap(), *at = top + MIB;
	int end;

	if (brk(top + MIB + 512 * KIB))
		fails("brk: %s", strerror(errno));
	fill(at, PAGE, 7);
	end = pipe_of(at);
	if (brk(top) || brk(top + MIB + 512 * KIB))
		fails("brk: %s", strerror(errno));
	expect(top, MIB + 512 * KIB, 0, "heap taken again");
	fill(at, PAGE, 8);
	expect_in(end, 7);
}

static void mapping_that_a_pipe_holds(void)
{
	char *at = map(2 * HUGE), *page = at + 2 * HUGE - 64 * PAGE;
	int end;

	fill(at, 2 * HUGE, 7);
	end = pipe_of(page);
	if (mremap(at, 2 * HUGE, 2 * HUGE - 128 * PAGE, 0) != at ||
	    mremap(at, 2 * HUGE - 128 * PAGE, 2 * HUGE, 0) != at)
		fails("mremap: %s", strerror(errno));
	expect(at + 2 * HUGE - 128 * PAGE, 128 * PAGE, 0, "what is new");
	fill(page, PAGE, 8);
	expect_in(end, (int)(2 * HUGE - 64 * PAGE) + 7);
}

/* What grows is locked, too: as much as the limit lets, and all of it is there. */
static void grows_locked(void)
{
	char *behind = map(HUGE), *at, *got;
	long before;

	fill(behind, HUGE, 1);
	if (mlockall(MCL_FUTURE))
		skips("mlockall is refused");
	at = map(HUGE);
	before = of_process("VmRSS");
	got = mremap(at, HUGE, 2 * HUGE, MREMAP_MAYMOVE);
	if (got == MAP_FAILED || of_process("VmRSS") - before < (long)(HUGE / KIB) - 64)
		fails("%ld KiB more are there", of_process("VmRSS") - before);
	limit(RLIMIT_MEMLOCK, of_process("VmLck") * (long)KIB + (long)HUGE);
	if (setuid(1000))
		fails("setuid: %s", strerror(errno));
	if (mremap(got, 2 * HUGE, 4 * HUGE, MREMAP_MAYMOVE) != MAP_FAILED || errno != EAGAIN)
		fails("more is locked than RLIMIT_MEMLOCK is: %ld KiB", of_process("VmLck"));
}

/* brk() to less fails, for a seal in between: what was given up before is still given up. */
static void sealed_heap(void)
{
	char *top = large_heap();

	if (brk(top + MIB + 512 * KIB))
		fails("brk: %s", strerror(errno));
	fill(top, MIB + 512 * KIB, 1);
	if (brk(top + 512 * KIB))
		fails("brk: %s", strerror(errno));
	if (syscall(SYS_mseal, top - 4 * PAGE - MIB, PAGE, 0))
		skips("no mseal()");
	if (syscall(SYS_brk, top - 2 * MIB) != (long)(top + 512 * KIB))
		fails("brk() unmapped what is sealed");
	if (brk(top + MIB + 512 * KIB))
		fails("brk: %s", strerror(errno));
	expect(top, 512 * KIB, 1, "heap");
	expect(top + 512 * KIB, MIB, 0, "heap taken again");
}

/* The last page below the end is never mapped: processors err there. */
static void heap_at_the_end(void)
{
	uintptr_t base = TASK_END + PAGE - 4 * MIB, top = TASK_END - PAGE, start, end;

	if (find_vma((void *)base, &start, &end) || is_mapped((void *)(top - PAGE)))
		skips("something is there");
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, base, 0, 0) || prctl(PR_SET_MM, PR_SET_MM_START_BRK, base, 0, 0))
		skips("PR_SET_MM is refused");
	if (syscall(SYS_brk, top) != (long)top)
		skips("no heap there");
	if (!find_vma((void *)(top - PAGE), &start, &end) || end > TASK_END)
		fails("the heap ends at %#lx", end);
	fill((char *)top - MIB, MIB, 1);
}

const struct test semantics_refused[] = {
	{ "heap that a pipe still holds", heap_that_a_pipe_holds, false },
	{ "a mapping that a pipe still holds", mapping_that_a_pipe_holds, false },
	{ "what grows under MCL_FUTURE", grows_locked, false },
	{ "a seal in the heap", sealed_heap, false },
	{ "a heap at the end of the address space", heap_at_the_end, false },
	{ NULL, NULL, false },
};
