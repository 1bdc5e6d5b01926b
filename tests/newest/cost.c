// SPDX-License-Identifier: MIT
/*
 * What calls that a heap mapped ahead of its break concerns cost: processor cycles of one call, of the cheapest of many
 * rounds. In a machine that counts instructions as time, these are instructions.
 *
 *	cost
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096
#define CALLS 512 /* of a round: a heap goes through a hugepage */
#define ROUNDS 40

static char *area;

static uintptr_t brk_to(uintptr_t to)
{
	return syscall(SYS_brk, to);
}

static void brk_grows(void)
{
	uintptr_t at = brk_to(0);

	for (int i = 0; i < CALLS; i++)
		brk_to(at += PAGE);
}

static void brk_grows_and_shrinks(void)
{
	const uintptr_t at = brk_to(0);

	for (int i = 0; i < CALLS / 2; i++) {
		brk_to(at + PAGE);
		brk_to(at);
	}
}

static void brk_shrinks(void)
{
	uintptr_t at = brk_to(0);

	for (int i = 0; i < CALLS; i++)
		brk_to(at -= PAGE);
}

static void maps_and_unmaps(void)
{
	for (int i = 0; i < CALLS / 2; i++)
		munmap(mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4 * PAGE);
}

static void protects(void)
{
	for (int i = 0; i < CALLS / 2; i++) {
		mprotect(area, PAGE, PROT_NONE);
		mprotect(area, PAGE, PROT_READ | PROT_WRITE);
	}
}

static void measure(const char *name, void (*run)(void), void (*undo)(void))
{
	uint64_t least = ~0ul, start;

	for (int i = 0; i < ROUNDS; i++) {
		start = __rdtsc();
		run();
		start = __rdtsc() - start;
		least = start < least ? start : least;
		if (undo)
			undo();
	}
	printf("cost %s %.1f\n", name, (double)least / CALLS);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	measure("brk_grows", brk_grows, brk_shrinks);
	measure("brk_grows_and_shrinks", brk_grows_and_shrinks, NULL);
	measure("mmap_munmap", maps_and_unmaps, NULL);
	measure("mprotect", protects, NULL);
	return 0;
}
