// SPDX-License-Identifier: MIT
/* Memory that is unmapped by roundabout ways takes the note of its slack with it, and nobody is told of slack. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cases.h"
#include "slack.h"

#define PIECE (512 * KIB)
#define SOFT_DIRTY (1ull << 55) /* of /proc/PID/pagemap */

/* The third opens a hugepage, the rest of which is slack. */
static char *open_hugepage(void)
{
	map(PIECE);
	map(PIECE);
	return map(PIECE);
}

/* The next piece would be served from slack that has gone. */
static void next_is_mapped(void)
{
	char *at = map(PIECE);

	if (!is_mapped(at) || !is_mapped(at + PIECE - PAGE))
		fails("mmap() returns %p, where nothing is mapped", (void *)at);
	fill(at, PIECE, 1);
	expect(at, PIECE, 1, "a piece");
}

static void set_heap(char *start, char *brk)
{
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, brk, 0, 0) || prctl(PR_SET_MM, PR_SET_MM_START_BRK, start, 0, 0))
		skips("PR_SET_MM is refused");
}

/* The program says that its heap is where it then has a mapping. */
static void heap_over_slack(void)
{
	char *at = open_hugepage();
	int tries = 64;

	munmap(at, PIECE);
	set_heap(at, at + HUGE);
	while (map(PIECE) != at && --tries)
		;
	if (!tries)
		fails("no piece is where the first one was");
	if (syscall(SYS_brk, at + PIECE) != (long)(at + PIECE))
		fails("brk() to less fails");
	if (on() && slack_kib())
		fails("%ld KiB of slack are noted where nothing is mapped", slack_kib());
	next_is_mapped();
}

/* A mapping that comes to the hole at start, with slack before it: it does not come to the same page each time. */
static char *with_slack_before(uintptr_t start)
{
	char *at = NULL;

	for (int tries = 0; tries < 64; tries++) {
		at = map(ODD);
		if (!on() || (uintptr_t)at - start >= 2 * PAGE)
			break;
		munmap(at, ODD);
	}
	return at;
}

/* What lies around a mapping is not in the way of a heap that grows. */
static void heap_below_slack(void)
{
	char *at = map(ODD);
	uintptr_t start, end;

	find_vma(at, &start, &end);
	munmap(at, ODD);
	set_heap((char *)start - 16 * PAGE, (char *)start - 8 * PAGE);
	at = with_slack_before(start);
	/* A page stays free between a heap and what follows. */
	if (syscall(SYS_brk, at - PAGE) != (long)(at - PAGE))
		fails("brk() up to the program's part of a mapping fails");
	*(at - 2 * PAGE) = 1;
}

/* A fixed address may be 0. */
static void all_from_zero(void)
{
	char *at = (char *)HUGE, *zero = NULL;

	if (mmap(at, HUGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != at)
		skips("something lies at 2 MiB");
	fill(at, HUGE, 1);
	if (mremap(at, HUGE, ODD, 0) != at)
		fails("mremap(): %s", strerror(errno));
	if (mmap(zero, 2 * HUGE, RW, PLAIN | MAP_FIXED, -1, 0) != zero)
		skips("nothing may lie at 0");
	fill(at, HUGE, 2);
	if (mprotect(at, HUGE, PROT_READ))
		fails("mprotect(): %s", strerror(errno));
	expect(at, HUGE, 2, "what was mapped anew");
}

/* A heap is to end where its surplus does, and a mapping has come behind that, with slack before it. */
static void heap_up_to_slack(void)
{
	char *at = map(ODD), *end;
	uintptr_t start, after;

	find_vma(at, &start, &after);
	munmap(at, ODD);
	end = (char *)start;
	set_heap(end - 4 * HUGE, end - 4 * HUGE + PAGE);
	if (syscall(SYS_brk, end - MIB / 2) != (long)(end - MIB / 2))
		fails("brk() fails");
	if (!on())
		return; /* a mapping comes anywhere */
	at = with_slack_before(start);
	if (at < end || at > end + HUGE || !is_mapped(end - PAGE))
		fails("the mapping is at %p, and the surplus should end at %p", (void *)at, (void *)end);
	if (syscall(SYS_brk, end) != (long)end)
		fails("brk() to where the surplus ends fails");
	*(end - 1) = 1;
}

/* mremap() rounds both lengths of hugetlb memory up, and so unmaps more than it has named. */
static void hugetlb_over_slack(void)
{
	char *at = open_hugepage(), *from = at - HUGE, *to = at - 16 * HUGE;

	if (!on())
		return; /* nothing makes room for it */
	if (mmap(from, HUGE, RW, PLAIN | MAP_FIXED_NOREPLACE | MAP_HUGETLB | MAP_NORESERVE, -1, 0) != from)
		fails("hugetlb memory below a piece: %s", strerror(errno));
	if (mremap(from, HUGE + PAGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		fails("mremap() of hugetlb memory to less: %s", strerror(errno));
	if (slack_kib())
		fails("%ld KiB of slack are noted where nothing is mapped", slack_kib());
	next_is_mapped();
}

/* A heap that has memory again which it gave up: its content is another, whatever was noted before. */
static void soft_dirty(void)
{
	char *base = (char *)(((uintptr_t)sbrk(0) + HUGE - 1) & ~(HUGE - 1)), *top = base + 2 * HUGE + MIB;
	unsigned long long entry = 0;
	int file;

	/* Of a hugepage what is cleared is written; small pages are given back. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) || brk(top))
		fails("no heap: %s", strerror(errno));
	fill(base, (size_t)(top - base), 1);
	if (write_file("/proc/self/clear_refs", "4"))
		skips("nothing tells what is written");
	if (brk(top - 600 * KIB) || brk(top))
		fails("brk(): %s", strerror(errno));
	file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pread(file, &entry, sizeof(entry), (off_t)((uintptr_t)(top - PAGE) / PAGE * sizeof(entry))) !=
	    sizeof(entry))
		skips("no /proc/self/pagemap");
	close(file);
	if (!(entry & SOFT_DIRTY))
		fails("memory that was taken again is said to be as it was: %#llx", entry);
	expect(top - PAGE, PAGE, 0, "it");
}

static void *unmap(void *at)
{
	if (munmap(at, ODD))
		fails("munmap(): %s", strerror(errno));
	return NULL;
}

/* A userfaultfd is told of what the program has named, although it watches only a part of that. */
static void told_of_what_was_named(void)
{
	char *at = with_slack(ODD);
	int handle = watch(at, 64 * PAGE, UFFD_FEATURE_EVENT_UNMAP);

	expect_told(told_by(handle, unmap, at, NULL), UFFD_EVENT_UNMAP, at, at + ODD);
	left(at, "munmap()");
}

struct hole {
	int handle;
	struct uffdio_writeprotect protect;
};

/* Without ABH the first part of what is to be protected is a hole; with it, slack. */
static struct hole hole(void)
{
	char *above = map(ODD), *at = with_slack(ODD), *other;
	struct hole hole;

	munmap(above, ODD);
	/* Not next to it, else it goes. */
	other = mmap(at + HUGE + PAGE, 4 * PAGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
	hole.handle = watch(other, 4 * PAGE, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	hole.protect = (struct uffdio_writeprotect){
		.range = { (uintptr_t)at + ODD, (uintptr_t)other + 4 * PAGE - (uintptr_t)at - ODD },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	return hole;
}

static void protect(struct hole hole)
{
	if (ioctl(hole.handle, UFFDIO_WRITEPROTECT, &hole.protect))
		fails("UFFDIO_WRITEPROTECT: %s", strerror(errno));
}

static void expect_hole(struct hole hole)
{
	if (is_mapped((char *)hole.protect.range.start))
		fails("slack is still there");
}

static void told_of_a_hole(void)
{
	struct hole at = hole();

	protect(at);
	expect_hole(at);
}

static void told_by_a_child(void)
{
	struct hole at = hole();
	pid_t child = fork();

	if (child == 0) {
		protect(at);
		_exit(0);
	}
	wait_for(child);
	expect_hole(at);
}

const struct test slack_stale[] = {
	{ "a heap over a mapping with slack", heap_over_slack, false },
	{ "a heap below a mapping with slack", heap_below_slack, false },
	{ "a heap with a surplus up to slack", heap_up_to_slack, false },
	{ "a mapping over slack, from address 0", all_from_zero, false },
	{ "hugetlb memory below slack", hugetlb_over_slack, true },
	{ "soft-dirty bits of a heap", soft_dirty, false },
	{ "userfaultfd of a part", told_of_what_was_named, true },
	{ "userfaultfd over a hole", told_of_a_hole, true },
	{ "a child's userfaultfd over a hole", told_by_a_child, true },
	{ NULL, NULL, false },
};
