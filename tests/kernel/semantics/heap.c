// SPDX-License-Identifier: MIT
/* The heap's surplus: what lies between the end that the program knows and the real one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

void *grow(size_t bytes)
{
	void *at = sbrk((intptr_t)bytes);

	if (at == (void *)-1)
		fails("sbrk of %zu KiB: %s", bytes / KIB, strerror(errno));
	return at;
}

static void small_heap(void)
{
	uintptr_t start, end;
	char *base = grow(64 * KIB), *top = sbrk(0);

	fill(base, 64 * KIB, 1);
	if (!find_vma(base, &start, &end))
		fails("the heap is not there");
	value("small_heap.kib_beyond", (long)(end - (uintptr_t)top) / (long)KIB);
	if (end != (((uintptr_t)top + PAGE - 1) & ~(PAGE - 1)))
		fails("a small heap ends at %#lx, and was asked to end at %p", end, (void *)top);
}

static void heap_reads_zero(void)
{
	char *base = grow(5 * MIB + 3 * PAGE);
	size_t size = 5 * MIB + 3 * PAGE, back = 2 * MIB + 5 * PAGE;

	fill(base, size, 7);
	madvise((void *)(((uintptr_t)base + size - back / 2) & ~(PAGE - 1)), 64 * PAGE, MADV_PAGEOUT);
	if (brk(base + size - back))
		fails("the heap cannot shrink");
	if (sbrk(0) != base + size - back)
		fails("the heap ends at %p, expected %p", sbrk(0), (void *)(base + size - back));
	if (grow(back) != base + size - back)
		fails("the heap grew elsewhere");
	expect(base, size - back, 7, "kept heap");
	expect(base + size - back, back, 0, "heap taken again");
}

static void small_pages_read_zero(void)
{
	size_t size = 5 * MIB, back = 2 * MIB + 5 * PAGE;
	char *base;

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		skips("no transparent hugepages to do without");
	base = grow(size);
	fill(base, size, 7);
	if (brk(base + size - back) || brk(base + size))
		fails("brk: %s", strerror(errno));
	expect(base, size - back, 7, "kept heap");
	expect(base + size - back, back, 0, "heap taken again");
}

static uintptr_t page_after(const void *top)
{
	return ((uintptr_t)top + PAGE - 1) & ~(PAGE - 1);
}

size_t behind(const void *top)
{
	uintptr_t start, end;

	if (!find_vma((const char *)top - 1, &start, &end))
		fails("the heap is not there");
	return end - page_after(top);
}

/* A heap whose surplus is nearly a hugepage, if there is one; returns its top, which is the start of a page. */
char *large_heap(void)
{
	uintptr_t top = ((uintptr_t)sbrk(0) + 8 * MIB) & ~(HUGE - 1);

	top += 4 * PAGE;
	if (brk((void *)top))
		fails("brk: %s", strerror(errno));
	fill((char *)top - 4 * MIB, 4 * MIB, 1);
	if (behind((void *)top) != (on() ? HUGE - 4 * PAGE : 0))
		fails("%zu bytes behind a heap that ends at %#lx", behind((void *)top), top);
	return (char *)top;
}

static void heap_is_extended(void)
{
	char *top = large_heap();

	for (int i = 0; i < 100; i++) {
		top = (char *)grow(33 * PAGE + 100) + 33 * PAGE + 100;
		if (sbrk(0) != top)
			fails("sbrk(0) is %p, expected %p", sbrk(0), (void *)top);
		if (on() ? (page_after(top) + behind(top)) % HUGE : behind(top))
			fails("%zu bytes behind %p", behind(top), (void *)top);
	}
	/* When it shrinks, it keeps less than a hugepage. */
	if (brk(top -= 5 * MIB + PAGE))
		fails("brk: %s", strerror(errno));
	if (on() ? (page_after(top) + behind(top)) % HUGE || behind(top) >= HUGE : behind(top))
		fails("%zu bytes behind %p, after it shrank", behind(top), (void *)top);
}

static void heap_gets_hugepages(void)
{
	const size_t step = 132 * KIB;
	uintptr_t base = (uintptr_t)grow(0);
	/* Small pages while the heap is below the threshold of 1 MiB, and to the end of the slot where it passes it. */
	long most = (long)((((base + MIB + step + HUGE - 1) & ~(HUGE - 1)) - base) / PAGE) + 32;
	long faults;
	size_t size = 0;

	if (!thp_always())
		skips("transparent hugepages are not always on");
	for (faults = minor_faults(); size < 16 * MIB; size += step)
		fill(grow(step), step, 1);
	faults = minor_faults() - faults;
	value("heap.faults_of_16_mib", faults);
	if (on() && faults > most)
		fails("%ld faults, expected at most %ld of a heap from %#lx", faults, most, base);
}

static void heap_is_not_split(void)
{
	char *base = grow(0);
	long splits = read_number("/proc/vmstat", "thp_split_pmd");

	/* At once, so that stock has hugepages as well: this would split them. */
	fill(grow(8 * MIB), 8 * MIB, 1);
	/* From the second hugepage on: the first holds what was there when the heap was small. */
	for (int i = 0; i < 200; i++) {
		char *top = base + 2 * HUGE + (size_t)(i * 7919 % 4096) * 512, *was = sbrk(0);

		if (brk(top))
			fails("brk: %s", strerror(errno));
		if (top > was)
			fill(was, (size_t)(top - was), i + 2);
	}
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	value("heap.splits", splits);
	if (on() ? splits : !splits && thp_always())
		fails("%ld hugepages were split", splits);
}

/* Memory behind the heap is named, with the heap's last page in front of it. */
#define REFUSED(call, number)                                                                                          \
	do {                                                                                                           \
		at = large_heap() - PAGE;                                                                              \
		errno = 0;                                                                                             \
		if ((long)(call) != -1 || errno != (number))                                                           \
			fails("%s: %s, expected: %s", #call, strerror(errno), strerror(number));                       \
		if (find_vma(at + PAGE, &start, &end))                                                                 \
			fails("%s left something behind the heap", #call);                                             \
	} while (0)

/*
 * Twenty turns of a heap that shrinks, takes the same back, and writes to little of it. It pays for looking through it
 * once: then one shrink keeps nothing, and the others have no hugepage to look through.
 */
static void pays_once(void (*turn)(char *top, int i))
{
	char *top = large_heap();
	long splits, sparse;

	fill(grow(400 * PAGE), 400 * PAGE, 1);
	splits = read_number("/proc/vmstat", "thp_split_pmd");
	sparse = read_number(EVENTS, "abh_heap_sparse");
	for (int i = 0; i < 20; i++) {
		if (brk(top))
			fails("brk: %s", strerror(errno));
		turn(top, i);
	}
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	sparse = read_number(EVENTS, "abh_heap_sparse") - sparse;
	value("sparse_heap.splits", splits);
	value("sparse_heap.kept_none", sparse);
	if (on() ? splits != 1 || sparse != 1 : sparse)
		fails("%ld hugepages were split, and %ld shrinks kept none", splits, sparse);
}

static void writes_a_page(char *top, int i)
{
	if (brk(top + 400 * PAGE))
		fails("brk: %s", strerror(errno));
	expect(top + i * PAGE, PAGE, 0, "heap taken again");
	top[0] = 1;
}

static void heap_is_sparse(void)
{
	pays_once(writes_a_page);
}

/* The second step, which is filled, does not make up for the first. */
static void writes_a_page_at_last(char *top, int i)
{
	(void)i;
	if (brk(top + 399 * PAGE))
		fails("brk: %s", strerror(errno));
	top[0] = 1;
	if (brk(top + 400 * PAGE))
		fails("brk: %s", strerror(errno));
	top[399 * PAGE] = 1;
}

static void heap_is_sparse_in_steps(void)
{
	pays_once(writes_a_page_at_last);
}

/* Steps of a heap, as malloc() takes them, of which the last is not filled: the hugepage stays. */
static void heap_is_filled_mostly(void)
{
	const int steps = 14, pages = 33;
	char *top = large_heap();
	long sparse = read_number(EVENTS, "abh_heap_sparse");

	for (int turn = 0; turn < 6; turn++) {
		for (int i = 0; i < steps; i++) {
			if (brk(top + (i + 1) * pages * PAGE))
				fails("brk: %s", strerror(errno));
			expect(top + i * pages * PAGE, pages * PAGE, 0, "heap taken again");
			memset(top + i * pages * PAGE, turn + 1, (size_t)(i < steps - 1 ? pages : 4) * PAGE);
		}
		if (brk(top))
			fails("brk: %s", strerror(errno));
	}
	sparse = read_number(EVENTS, "abh_heap_sparse") - sparse;
	if (sparse)
		fails("%ld shrinks kept none, though most of it was written", sparse);
}

/* The bounds of arguments are no business of the heap's. */
static void heap_where_it_was(void)
{
	char text[2048], *field;
	long splits, surplus;
	unsigned long start = 0;
	FILE *stat;

	large_heap();
	stat = fopen("/proc/self/stat", "re");
	if (!stat || !fgets(text, sizeof(text), stat))
		fails("/proc/self/stat: %s", strerror(errno));
	fclose(stat);
	field = strrchr(text, ')');
	for (int i = 2; field && i < 48; i++) /* arg_start is the 48th */
		field = strchr(field + 1, ' ');
	if (field)
		start = strtoul(field, NULL, 10);
	splits = read_number("/proc/vmstat", "thp_split_pmd");
	surplus = read_number("/proc/self/status", "AbhSurplus:");
	if (prctl(PR_SET_MM, PR_SET_MM_ARG_START, start, 0, 0))
		fails("PR_SET_MM_ARG_START of %#lx: %s", start, strerror(errno));
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	if (splits || read_number("/proc/self/status", "AbhSurplus:") != surplus)
		fails("%ld hugepages were split, the surplus was %ld KiB and is %ld", splits, surplus,
		      read_number("/proc/self/status", "AbhSurplus:"));
	/* One that moves the heap's bounds drops it. */
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, (uintptr_t)sbrk(0) - PAGE, 0, 0))
		fails("PR_SET_MM_BRK: %s", strerror(errno));
	if (read_number("/proc/self/status", "AbhSurplus:") > 0)
		fails("the surplus stays when the break moves");
}

static void heap_surplus_is_nobodys(void)
{
	uintptr_t start, end;
	char *top, *at;

	REFUSED(madvise(at, 2 * PAGE, MADV_DONTNEED), ENOMEM);
	REFUSED(madvise(at, 2 * PAGE, MADV_HUGEPAGE), ENOMEM);
	REFUSED(mprotect(at, 2 * PAGE, PROT_READ), ENOMEM);
	REFUSED(mlock(at, 2 * PAGE), ENOMEM);
	munlockall();
	REFUSED(mremap(at + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
	top = large_heap();
	if (mmap(top, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != top)
		fails("MAP_FIXED_NOREPLACE right behind the heap: %s", strerror(errno));
	if (!brk(top + 2 * PAGE))
		fails("the heap grew over a mapping");
	munmap(top, PAGE);
	top = large_heap();
	if (mmap(top + PAGE, PAGE, PROT_READ, PLAIN, -1, 0) != top + PAGE)
		fails("a hint behind the heap was not taken");
	munmap(top + PAGE, PAGE);
	top = large_heap();
	munmap(top - PAGE, PAGE);
	if (find_vma(top, &start, &end))
		fails("munmap() of the heap's end left something behind it");
}

/* Advice for all of the heap up to the break makes a mapping of its own of what is behind it. */
static void heap_surplus_does_not_move(void)
{
	char *top = large_heap();

	if (madvise(top - MIB, MIB, MADV_NOHUGEPAGE))
		fails("MADV_NOHUGEPAGE: %s", strerror(errno));
	errno = 0;
	if (mremap(top, PAGE, 2 * HUGE, MREMAP_MAYMOVE) != MAP_FAILED || errno != EFAULT)
		fails("mremap() behind the heap: %s, expected: %s", strerror(errno), strerror(EFAULT));
	if (grow(64 * KIB) != top)
		fails("the heap grew elsewhere");
}

/* A mapping that grows down keeps a gap of 256 pages to what is below it: to the heap, not to its surplus. */
static void grows_down_to_heap(void)
{
	char *top = large_heap(), *at = top + HUGE + MIB - 64 * PAGE;

	if (mmap(at, PAGE, RW, PLAIN | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0) != at)
		fails("MAP_GROWSDOWN: %s", strerror(errno));
	for (; at > top + 257 * PAGE; at -= PAGE)
		*(volatile char *)at = 1;
}

/* What lies behind the heap stays away from it as far as ever: a page, or the gap of what grows down. */
static void heap_stops_at_mapping(void)
{
	char *top = large_heap(), *at = top + 64 * PAGE;

	for (int i = 0; i < 2; i++) {
		if (brk(at) ||
		    mmap(at, PAGE, PROT_READ, PLAIN | MAP_FIXED_NOREPLACE | (i ? MAP_GROWSDOWN : 0), -1, 0) != at)
			fails("a mapping right behind the heap: %s", strerror(errno));
		if (brk(top))
			fails("brk: %s", strerror(errno));
		if (!brk(at))
			fails("the heap grew up to a mapping that grows %s", i ? "down" : "nowhere");
		if (!!brk(at - PAGE) != i)
			fails("the heap %s below a mapping that grows %s", i ? "grew" : "did not grow",
			      i ? "down" : "nowhere");
		munmap(at, PAGE);
	}
}

static void heap_of_two_kinds(void)
{
	char *top = large_heap();
	pid_t child;

	/* Not all of the heap goes to the child; what it has there must not be in its way. */
	if (madvise(top - 2 * MIB, MIB, MADV_DONTFORK))
		fails("MADV_DONTFORK: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		expect(grow(5 * MIB), 5 * MIB, 0, "child's heap");
		_exit(0);
	}
	wait_for(child);
}

const struct test semantics_heap[] = {
	{ "a small heap is not extended", small_heap, false },
	{ "heap taken again reads zero", heap_reads_zero, false },
	{ "heap of small pages taken again reads zero", small_pages_read_zero, false },
	{ "a large heap ends with a hugepage", heap_is_extended, false },
	{ "a large heap gets hugepages", heap_gets_hugepages, false },
	{ "a heap that shrinks and grows splits no hugepage", heap_is_not_split, false },
	{ "a heap that does not fill what it gets back", heap_is_sparse, false },
	{ "a heap that fills most of what it gets back", heap_is_filled_mostly, false },
	{ "a heap that fills a little of it at the last step", heap_is_sparse_in_steps, false },
	{ "PR_SET_MM leaves a heap alone that it does not move", heap_where_it_was, false },
	{ "what lies behind the heap is not there", heap_surplus_is_nobodys, false },
	{ "what lies behind the heap does not move", heap_surplus_does_not_move, false },
	{ "MAP_GROWSDOWN grows down to the heap", grows_down_to_heap, false },
	{ "a heap stops where it did at what is behind it", heap_stops_at_mapping, false },
	{ "MADV_DONTFORK of a part of the heap", heap_of_two_kinds, false },
	{ NULL, NULL, false },
};
