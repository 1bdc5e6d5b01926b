// SPDX-License-Identifier: MIT
/* Others that watch, share or copy memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

static void merging(void)
{
	char *at;

	if (write_file("/sys/kernel/mm/ksm/run", "1"))
		skips("no KSM");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "10000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "1");
	at = map(ODD);
	for (size_t i = 0; i < ODD; i += PAGE)
		memset(at + i, 0x5a, PAGE);
	if (madvise(at, ODD, MADV_MERGEABLE))
		fails("MADV_MERGEABLE: %s", strerror(errno));
	for (int tries = 0; tries < 100 && read_number("/sys/kernel/mm/ksm/pages_sharing", "") < 100; tries++)
		usleep(100000);
	value("ksm.pages_sharing", read_number("/sys/kernel/mm/ksm/pages_sharing", ""));
	if (read_number("/sys/kernel/mm/ksm/pages_sharing", "") < 100)
		fails("KSM merges nothing");
	for (size_t i = 0; i < ODD; i += PAGE)
		at[i + 17] = (char)(i / PAGE);
	for (size_t i = 0; i < ODD; i += PAGE)
		if (at[i + 17] != (char)(i / PAGE) || at[i + 16] != 0x5a)
			fails("page %zu was lost by merging", i / PAGE);
}

static void *touch(void *at)
{
	*(volatile char *)at;
	return NULL;
}

static void user_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_copy copy = { .len = PAGE };
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	static char page[PAGE] __attribute__((aligned(4096))) = "from the handler";
	struct uffd_msg message;
	char *at;

	if (handle < 0)
		skips("no userfaultfd");
	at = map(ODD);
	range.range.start = (uintptr_t)at;
	range.range.len = ODD;
	if (ioctl(handle, UFFDIO_API, &api) || ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	/* Every page asks for itself: none comes with a hugepage. */
	for (size_t i = 0; i < ODD; i += 64 * PAGE) {
		pthread_t thread;

		copy.dst = (uintptr_t)at + i;
		copy.src = (uintptr_t)page;
		if (pthread_create(&thread, NULL, touch, at + i))
			fails("no thread");
		if (read(handle, &message, sizeof(message)) != sizeof(message) ||
		    message.event != UFFD_EVENT_PAGEFAULT || (message.arg.pagefault.address & ~(PAGE - 1)) != copy.dst)
			fails("the fault at page %zu was not told", i / PAGE);
		if (ioctl(handle, UFFDIO_COPY, &copy))
			fails("UFFDIO_COPY: %s", strerror(errno));
		pthread_join(thread, NULL);
		if (strcmp(at + i, page))
			fails("page %zu does not hold what the handler gave", i / PAGE);
	}
}

static void copy_on_write(void)
{
	char *heap = grow(4 * MIB + ODD), *at = map(ODD);
	pid_t child;

	fill(heap, 4 * MIB + ODD, 1);
	fill(at, ODD, 2);
	child = fork();
	if (child == 0) {
		expect(heap, 4 * MIB + ODD, 1, "child's heap");
		fill(heap + 3 * MIB, MIB, 3);
		fill(at, ODD, 4);
		if (sbrk(-(intptr_t)ODD) == (void *)-1 || grow(ODD) != heap + 4 * MIB)
			fails("the child's heap does not shrink and grow");
		expect(heap + 4 * MIB, ODD, 0, "child's heap, taken again");
		_exit(0);
	}
	wait_for(child);
	expect(heap, 4 * MIB + ODD, 1, "parent's heap");
	expect(at, ODD, 2, "parent's mapping");
}

/* While the heap's surplus comes and goes, calls that name it split no VMA of it: a kernel would complain. */
static void *advise(void *base)
{
	for (int i = 0; i < 4000; i++) {
		madvise((char *)base + 3 * MIB + 2 * PAGE, PAGE, i % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		mlock((char *)base + 3 * MIB + 4 * PAGE, PAGE);
		munlock((char *)base + 3 * MIB + 4 * PAGE, PAGE);
	}
	return NULL;
}

static void races(void)
{
	char *base = grow(3 * MIB);
	pthread_t thread;

	if (pthread_create(&thread, NULL, advise, base))
		fails("no thread");
	for (int i = 0; i < 4000; i++) {
		if (brk(base + PAGE) || brk(base + 3 * MIB + PAGE))
			fails("brk(): %s", strerror(errno));
		*(volatile char *)(base + 3 * MIB) = 1;
	}
	pthread_join(thread, NULL);
	if (brk(base + 5 * MIB))
		fails("the heap no longer grows: %s", strerror(errno));
	fill(base, 5 * MIB, 1);
}

static atomic_bool grown;

/* Says where the heap starts, as it is. */
static void *say(void *start)
{
	while (!grown)
		if (prctl(PR_SET_MM, PR_SET_MM_START_BRK, start, 0, 0))
			fails("PR_SET_MM_START_BRK: %s", strerror(errno));
	return NULL;
}

/* While another thread tells the kernel where the heap starts, it shrinks and grows as ever. */
static void told_where_it_starts(void)
{
	char *base = grow(3 * MIB);
	uintptr_t start, end;
	pthread_t thread;

	if (!find_vma(base, &start, &end) || pthread_create(&thread, NULL, say, (void *)start))
		fails("no heap or no thread");
	for (int i = 0; i < 3000; i++)
		if (brk(base + PAGE) || brk(base + (3 + i % 5) * MIB + PAGE))
			fails("brk() %d: %s", i, strerror(errno));
	grown = true;
	pthread_join(thread, NULL);
}

/* A userfaultfd is told of the part of a heap that goes, and not of what it never had. */
static void told_of_a_shrinking_heap(void)
{
	char *base = grow(3 * MIB), *top = base + 3 * MIB + ODD;
	char *start = (char *)(((uintptr_t)base + PAGE - 1) & ~(PAGE - 1));
	int handle;

	fill(base, 3 * MIB, 1);
	handle = watch(start, 2 * MIB, UFFD_FEATURE_EVENT_UNMAP);
	if (brk(top))
		fails("brk(): %s", strerror(errno));
	expect_told(told_by(handle, (void *(*)(void *))(void *)brk, start + MIB, NULL), UFFD_EVENT_UNMAP, start + MIB,
		    (char *)(((uintptr_t)top + PAGE - 1) & ~(PAGE - 1)));
}

static char *more;

static void grow_by_more(void)
{
	more = grow(64 * KIB);
	fill(more, 64 * KIB, 2);
}

/* While a userfaultfd is told of madvise() up to the end of the heap, that grows: what is new is not given back. */
static void grows_while_told(void)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE };

	for (int i = 0; i < 2; i++) {
		char *top = large_heap(), *start = top - 4 * MIB;
		struct advice given = { start, 4 * MIB, advice[i], -1 };
		int handle = watch(start, MIB, UFFD_FEATURE_EVENT_REMOVE);

		expect_told(told_by(handle, give_back, &given, grow_by_more), UFFD_EVENT_REMOVE, start, start + MIB);
		if (given.result)
			fails("madvise(%d) fails", advice[i]);
		expect(more, 64 * KIB, 2, "what came meanwhile");
		close(handle);
	}
}

/* Each end of a pair of sockets waits for the other's word. */
static void turn(int end)
{
	char byte = 0;

	if (write(end, &byte, 1) != 1 || read(end, &byte, 1) != 1)
		fails("the other is gone");
}

/* Who has read how a process's faults were met reads no more once he may not look into it. */
static void faults_are_private(void)
{
	char path[64], text[64];
	int ends[2], file;
	pid_t child;

	if (write_file("/proc/sys/vm/explain_thp_faults", "1"))
		skips("the kernel does not explain faults");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || setuid(1000))
		fails("socketpair() or setuid(): %s", strerror(errno));
	child = fork();
	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		turn(ends[1]);
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		turn(ends[1]);
		_exit(0);
	}
	if (read(ends[0], text, 1) != 1)
		fails("no word of the child");
	snprintf(path, sizeof(path), "/proc/%d/thp_faults", child);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (pread(file, text, sizeof(text), 0) <= 0)
		fails("%s: %s", path, strerror(errno));
	turn(ends[0]);
	if (pread(file, text, sizeof(text), 0) >= 0 || errno != EACCES)
		fails("%s is still read: %s", path, strerror(errno));
	if (write(ends[0], text, 1) != 1)
		fails("the child is gone");
	wait_for(child);
}

const struct test semantics_others[] = {
	{ "KSM", merging, false },
	{ "userfaultfd", user_faults, false },
	{ "copy on write", copy_on_write, false },
	{ "brk() and calls that name the surplus, at once", races, false },
	{ "brk() and PR_SET_MM, at once", told_where_it_starts, false },
	{ "userfaultfd of a heap that shrinks", told_of_a_shrinking_heap, false },
	{ "userfaultfd of a heap that grows", grows_while_told, false },
	{ "faults of a process that has become private", faults_are_private, false },
	{ NULL, NULL, false },
};
