// SPDX-License-Identifier: MIT
/*
 * What memory calls cost, in instructions: of the machine, kernel and program together.
 *
 * For an emulator that counts instructions by its clock (QEMU's -icount shift=0), where the processor's time stamp is
 * how many it has executed. Of several rounds the least is taken: in others the timer has interrupted. Addresses are
 * not random, as what a call costs depends on them: how many page tables it needs, and who its neighbours are.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096ul
#define KIB 1024ul
#define RW (PROT_READ | PROT_WRITE)
enum { ROUNDS = 9, CALLS = 100 };

static void *check(void *got)
{
	if (got == (void *)-1) {
		perror("cost");
		exit(2);
	}
	return got;
}

static char *map(size_t bytes)
{
	return check(mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void touch(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		((volatile char *)at)[i] = 1;
}

static void heap(intptr_t bytes)
{
	check(sbrk(bytes));
	check(sbrk(-bytes));
}

static void heap_page(void)
{
	heap(PAGE);
}

static void heap_large(void)
{
	heap(4096 * KIB);
}

static void heap_touched(void)
{
	touch(check(sbrk(64 * KIB)), 64 * KIB);
	check(sbrk(-(intptr_t)(64 * KIB)));
}

/* In a hugepage of the heap's, which has been written to; last of all, as the heap stays large. */
static void heap_sparse(void)
{
	const uintptr_t slot = 2048 * KIB;
	static uintptr_t top;

	if (!top) {
		top = (((uintptr_t)sbrk(0) + 2 * slot) & ~(slot - 1)) + 64 * KIB;
		if (brk((void *)top) || brk((void *)(top + 1792 * KIB)))
			check((void *)-1);
		touch((char *)top - slot, slot + 1792 * KIB);
		brk((void *)top);
	}
	touch(check(sbrk(1792 * KIB)), PAGE);
	check(sbrk(-(intptr_t)(1792 * KIB)));
}

static void map_page(void)
{
	munmap(map(PAGE), PAGE);
}

static void map_odd(void)
{
	munmap(map(1280 * KIB), 1280 * KIB);
}

static void map_touched(void)
{
	char *at = map(64 * KIB);

	touch(at, 64 * KIB);
	munmap(at, 64 * KIB);
}

/* Where reservations are on, this process has one from then on, and each of its faults may be of it. */
static void map_beside(void)
{
	static char *held;

	if (!held) {
		held = map(5120 * KIB);
		touch(held, 5120 * KIB);
	}
	map_touched();
}

static void grow(void)
{
	char *at = check(mremap(map(64 * KIB), 64 * KIB, 128 * KIB, MREMAP_MAYMOVE));

	munmap(at, 128 * KIB);
}

static char *some;

static void protect(void)
{
	mprotect(some, PAGE, PROT_READ);
	mprotect(some, PAGE, RW);
}

static void give_back(void)
{
	madvise(some, PAGE, MADV_DONTNEED);
	touch(some, PAGE);
}

static void fork_child(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void start_program(void)
{
	int status;

	if (!vfork()) {
		execl("/nothing", "nothing", NULL);
		_exit(127);
	}
	wait(&status);
	if (status)
		check((void *)-1);
}

static const struct {
	const char *name;
	void (*call)(void);
} all[] = {
	{ "brk() by 4 KiB, and back", heap_page },
	{ "brk() by 4 MiB, and back", heap_large },
	{ "brk() by 64 KiB, touched, and back", heap_touched },
	{ "mmap() of 4 KiB, munmap()", map_page },
	{ "mmap() of 1.25 MiB, munmap()", map_odd },
	{ "mmap() of 64 KiB, touched, munmap()", map_touched },
	{ "mmap(), mremap() to more, munmap()", grow },
	{ "mprotect() of a page, and back", protect },
	{ "madvise(MADV_DONTNEED) of a page, touched", give_back },
	{ "fork(), exit", fork_child },
	{ "vfork(), execve(), exit", start_program },
	{ "mmap() of 64 KiB, touched, beside 5 MiB", map_beside },
	{ "brk() by 1.75 MiB, a page touched, and back", heap_sparse },
};

static uint64_t least(void (*call)(void))
{
	uint64_t found = UINT64_MAX, start, took;

	for (int round = 0; round <= ROUNDS; round++) {
		start = __rdtsc();
		for (int i = 0; i < CALLS; i++)
			call();
		took = __rdtsc() - start;
		/* The first one warms up. */
		if (round && took < found)
			found = took;
	}
	return found / CALLS;
}

int main(__attribute__((unused)) int argc, char **argv)
{
	if (!(personality(~0ul) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv(argv[0], argv);
		perror("cost");
		return 2;
	}
	some = map(16 * PAGE) + PAGE;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		printf("cost %lu %s\n", least(all[i].call), all[i].name);
	return 0;
}
