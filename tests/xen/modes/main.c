// SPDX-License-Identifier: MIT
/*
 * A guest in 32 bits that leaves PAE while superpages are mapped: for no paging, and for 32-bit page tables with leaves
 * of 4 MiB, and back. What it writes there to a page table of PAE, which lies in a superpage, is what the table says
 * when it is back, and the superpage holds what was written to it.
 */
#include "../lib/lib.h"

const char test_name[] = "modes";

#ifndef __x86_64__
#define CR0_PG (UINT32_C(1) << 31)
#define CR4_PSE (UINT32_C(1) << 4)
#define CR4_PAE (UINT32_C(1) << 5)

static uint32_t directory[1024] __attribute__((aligned(4096)));

/* kind 0: no paging, 1: 32-bit tables, 2: PAE */
static void enter(int kind)
{
	uint32_t cr0, cr4;

	asm volatile("mov %%cr0, %0; mov %%cr4, %1" : "=r"(cr0), "=r"(cr4));
	asm volatile("mov %0, %%cr0" ::"r"(cr0 & ~CR0_PG) : "memory");
	if (!kind)
		return;
	cr4 &= ~(CR4_PSE | CR4_PAE);
	asm volatile("mov %0, %%cr4" ::"r"(cr4 | (kind == 1 ? CR4_PSE : CR4_PAE)) : "memory");
	asm volatile("mov %0, %%cr3" ::"r"(kind == 1 ? (uint32_t)directory : (uint32_t)top_table) : "memory");
	asm volatile("mov %0, %%cr0" ::"r"(cr0 | CR0_PG) : "memory");
}
#endif

void test(void)
{
#ifdef __x86_64__
	skip("what leaves long mode has to be in 32 bits");
#else
	uint64_t rounds = argument("rounds", 300), state = 51, inner = WINDOW + 5 * SUPERPAGE, value;

	for (uint32_t i = 0; i < 1024; i++)
		directory[i] = i << 22 | 0xe3;
	tag_extent(ARENA + SUPERPAGE);
	set(l2_entry(WINDOW), ARENA | PS | P | RW | A | D);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t page = draw(&state) & 511, other = (page + 1 + draw(&state) % 511) & 511,
			 table = ARENA + page * PAGE;
		uint64_t index = draw(&state) & 511, target = draw(&state) & 511;
		int kind = draw(&state) & 1, twice = draw(&state) & 1;

		check(try_write(WINDOW + page * PAGE + 8, 0) == NONE, "round %lu: the superpage", round);
		for (uint64_t i = 0; i < 512; i++)
			set(at(table) + i, 0);
		set(l2_entry(inner), table | P | RW | A);
		invlpg(inner);
		check(try_read(inner + index * PAGE, &value) == 0, "round %lu: the table is empty", round);
		enter(kind);
		set(at(table) + index, (ARENA + SUPERPAGE + target * PAGE) | P | A | D);
		set(at(ARENA + other * PAGE + 16), round);
		if (twice) {
			enter(2);
			check(try_read(inner + index * PAGE, &value) == NONE &&
				      value == tag_of(ARENA + SUPERPAGE + target * PAGE),
			      "round %lu in between: %lx", round, value);
			enter(!kind);
			target = (target + 1) & 511;
			set(at(table) + index, (ARENA + SUPERPAGE + target * PAGE) | P | A | D);
		}
		/* The l2 table itself, too: another superpage at times. */
		set(l2_entry(WINDOW + SUPERPAGE), (ARENA + (2 + round % 3) * SUPERPAGE) | PS | P | RW | A | D);
		enter(2);
		check(try_read(inner + index * PAGE, &value) == NONE &&
			      value == tag_of(ARENA + SUPERPAGE + target * PAGE),
		      "round %lu: %lx", round, value);
		check(try_write(inner + index * PAGE, 0) == (PF_P | PF_W), "round %lu: the table's page is writable",
		      round);
		check(try_read(WINDOW + other * PAGE + 16, &value) == NONE && value == round,
		      "round %lu, superpage: %lx", round, value);
		check(try_write(WINDOW + SUPERPAGE + other * PAGE, ~round) == NONE &&
			      *at(ARENA + (2 + round % 3) * SUPERPAGE + other * PAGE) == ~round,
		      "round %lu: the other superpage", round);
		set(l2_entry(inner), 0);
		invlpg(inner);
		check(try_write(WINDOW + page * PAGE, round) == NONE, "round %lu: data again", round);
	}
#endif
}
