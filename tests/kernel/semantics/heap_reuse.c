// SPDX-License-Identifier: MIT
/* The heap is given back, replaced or moved, and taken again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cases.h"
#include "semantics.h"

static void heap_with_a_file(void)
{
	char *top = large_heap(), *at = top - MIB;
	int file = memfd_create("file", MFD_CLOEXEC);

	/* What the program put there instead goes when the heap shrinks. */
	if (ftruncate(file, MIB) || mmap(at, MIB, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) != at)
		fails("a file over the heap: %s", strerror(errno));
	if (brk(at - PAGE) || brk(top + MIB))
		fails("brk: %s", strerror(errno));
	fill(at, 2 * MIB, 1);
	/* And so does a hole. */
	munmap(at, MIB);
	if (brk(at - PAGE) || brk(top + MIB))
		fails("brk after a hole: %s", strerror(errno));
	expect(at, 2 * MIB, 0, "heap after a hole");
}

/* Advice, names, policies and handlers go with memory that is given back. */
static void heap_taken_again_is_fresh(void)
{
	char *top = large_heap();
	pid_t child;

	if (madvise(top - MIB, MIB, MADV_WIPEONFORK) || brk(top - MIB) || brk(top))
		fails("brk after MADV_WIPEONFORK: %s", strerror(errno));
	fill(top - MIB, MIB, 3);
	child = fork();
	if (child == 0) {
		expect(top - MIB, MIB, 3, "child's heap");
		_exit(0);
	}
	wait_for(child);
	if (mlock(top - MIB, MIB) || brk(top - MIB) || brk(top))
		fails("brk after mlock: %s", strerror(errno));
	if (of_process("VmLck"))
		fails("%ld KiB are still locked", of_process("VmLck"));
}

static void heap_with_a_policy(void)
{
	unsigned long nodes = 1;
	char *top = large_heap();
	int mode = -1;

	if (syscall(SYS_mbind, top - MIB, MIB, 2 /* MPOL_BIND */, &nodes, 8 * sizeof(nodes), 0))
		skips("no memory policies");
	if (brk(top - MIB) || brk(top))
		fails("brk: %s", strerror(errno));
	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, top - MIB / 2, 2 /* MPOL_F_ADDR */) || mode)
		fails("heap taken again has policy %d", mode);
	expect(top - MIB, MIB, 0, "heap");
}

/* A range that reaches behind the break is not to divide what is there. */
static void heap_with_a_home_node(void)
{
	unsigned long nodes = 1;
	char *top = large_heap();

	if (syscall(SYS_mbind, top - MIB, MIB, 2 /* MPOL_BIND */, &nodes, 8 * sizeof(nodes), 0) ||
	    syscall(450 /* set_mempolicy_home_node */, top - MIB, MIB + 4 * PAGE, 0, 0))
		skips("no memory policies, or no home nodes");
	if (brk(top + MIB))
		fails("brk: %s", strerror(errno));
	expect(top, MIB, 0, "new heap");
}

/* What was given back lies on some node: a task that says where its memory is to be gets fresh pages. */
static void heap_of_a_task_with_a_policy(void)
{
	unsigned long nodes = 1;
	char *top = large_heap();
	long refused;

	fill(top - MIB, MIB, 1);
	if (brk(top - MIB))
		fails("brk: %s", strerror(errno));
	if (syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &nodes, 8 * sizeof(nodes)))
		skips("no memory policies");
	refused = read_number(EVENTS, "abh_heap_not_plain");
	if (brk(top))
		fails("brk: %s", strerror(errno));
	expect(top - MIB, MIB, 0, "heap taken again");
	if (on() && read_number(EVENTS, "abh_heap_not_plain") != refused + 1)
		fails("the heap was given the pages that it had");
}

static void heap_with_a_handler(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char *top = large_heap();
	int handle = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (handle < 0)
		skips("no userfaultfd");
	range.range.start = (uintptr_t)top - 4 * MIB;
	range.range.len = 4 * MIB;
	if (ioctl(handle, UFFDIO_API, &api) || ioctl(handle, UFFDIO_REGISTER, &range))
		fails("UFFDIO_REGISTER: %s", strerror(errno));
	madvise(top - MIB, MIB, MADV_DONTNEED);
	if (brk(top - MIB) || brk(top))
		fails("brk: %s", strerror(errno));
	alarm(20); /* a fault that nobody handles never ends */
	expect(top - MIB, MIB, 0, "heap");
}

static void heap_with_segment(void)
{
	char *top = large_heap(), *at = top - MIB;
	int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);

	if (id < 0)
		skips("no System V shared memory");
	if (shmat(id, at, SHM_REMAP) != at)
		fails("SHM_REMAP: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
	if (brk(top + MIB) || shmdt(at))
		fails("shmdt: %s", strerror(errno));
	fill(top, MIB, 1);
	if (brk(at) || brk(top + MIB))
		fails("brk: %s", strerror(errno));
	expect(at, 2 * MIB, 0, "heap");
	/* And one where nothing is but the surplus. */
	top = large_heap();
	id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	if (shmat(id, top + PAGE, 0) != top + PAGE)
		fails("shmat() behind the heap: %s", strerror(errno));
	shmctl(id, IPC_RMID, NULL);
}

/* What is kept behind a break has no right that the page before it has not. */
static void heap_ends_read_only(void)
{
	char *top = large_heap(), *less = top - MIB;
	unsigned char resident;

	if (mprotect(less - PAGE, PAGE, PROT_READ) || brk(less))
		fails("a heap whose last page is read-only: %s", strerror(errno));
	if (!mincore(less, PAGE, &resident))
		fails("what can be written is behind it");
}

/* A userfaultfd on a part of it has the surplus stay out of what is done to the rest: then it goes. */
static void watched_heap_is_read_only(void)
{
	char *top = large_heap();

	watch(top - 4 * MIB, MIB, 0);
	if (mprotect(top - 4 * MIB, 4 * MIB, PROT_READ))
		fails("mprotect: %s", strerror(errno));
	if (can_be_written(top))
		fails("what is behind it can be written");
}

static void heap_moves(void)
{
	char *top = large_heap();

	/* As for restoring a program: the break is elsewhere from now on. */
	if (prctl(PR_SET_MM, PR_SET_MM_BRK, top + 32 * MIB, 0, 0))
		skips("PR_SET_MM is refused");
	if (behind(top))
		fails("something is left behind the heap's old end");
	if (sbrk(0) != top || syscall(SYS_brk, top + 33 * MIB) != (long)(top + 33 * MIB))
		fails("the heap does not grow from its new end");
	fill(top + 32 * MIB, MIB, 1);
}

/* All up to the end, as the program knows it. */
static void heap_is_given_back(void)
{
	char *top = large_heap();
	long splits = read_number("/proc/vmstat", "thp_split_pmd");

	if (madvise(top - 4 * PAGE, 4 * PAGE, MADV_DONTNEED))
		fails("MADV_DONTNEED: %s", strerror(errno));
	splits = read_number("/proc/vmstat", "thp_split_pmd") - splits;
	value("heap_given_back.splits", splits);
	expect(top - 4 * PAGE, 4 * PAGE, 0, "given back");
	if (on() && splits)
		fails("%ld hugepages were split", splits);
	if (behind(top) != (on() ? HUGE - 4 * PAGE : 0))
		fails("%zu bytes behind it", behind(top));
}

const struct test semantics_heap_reuse[] = {
	{ "a file over the heap, and a hole in it", heap_with_a_file, false },
	{ "heap taken again is as fresh heap", heap_taken_again_is_fresh, false },
	{ "a NUMA policy of the heap", heap_with_a_policy, false },
	{ "a home node of the heap", heap_with_a_home_node, false },
	{ "a NUMA policy of the task", heap_of_a_task_with_a_policy, false },
	{ "userfaultfd and the heap", heap_with_a_handler, false },
	{ "System V shared memory over the heap", heap_with_segment, false },
	{ "a heap that ends read-only keeps nothing behind it", heap_ends_read_only, false },
	{ "a heap that is read-only and watched has nothing behind it", watched_heap_is_read_only, false },
	{ "PR_SET_MM moves the heap", heap_moves, false },
	{ "the heap's end given back splits nothing", heap_is_given_back, false },
	{ NULL, NULL, false },
};
