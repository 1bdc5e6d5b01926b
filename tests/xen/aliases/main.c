// SPDX-License-Identifier: MIT
/*
 * One superpage of memory, mapped writable by as many entries as an l2 table has: more than the shadow has pages, so
 * that the last are splintered. One page of it becomes a page table, for a moment: all entries go, by the one read that
 * walks it. Then all is data, and twenty of the entries are mapped whole again after the wait of one such event, not of
 * as many as there were entries. Says how long the read took, in microseconds of the guest's clock.
 */
#include "../lib/lib.h"

const char test_name[] = "aliases";

#define ENTRIES 508
#define AGAIN 20
#define KHZ UINT64_C(1000000) /* of the time stamps, as Xen shows them to a guest of the emulated machine */

static uint64_t ticks(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

void test(void)
{
	uint64_t inner = WINDOW + (ENTRIES + 1) * SUPERPAGE, table = ARENA + 5 * PAGE, turns = 0, value, start, took;

	for (uint64_t i = 0; i < ENTRIES; i++)
		set(l2_entry(WINDOW + i * SUPERPAGE), ARENA | PS | P | RW | A | D);
	for (uint64_t i = 0; i < ENTRIES; i++)
		check(try_write(WINDOW + i * SUPERPAGE + 8, i) == NONE, "entry %lu", i);
	check(try_write(WINDOW + 5 * PAGE, (ARENA + SUPERPAGE) | P | RW | A | D) == NONE, "the entry of a page table");
	set(l2_entry(inner), table | P | RW | A);
	start = ticks();
	check(try_read(inner, &value) == NONE, "no read through the page table");
	took = ticks() - start;
	for (uint64_t i = 0; i < ENTRIES; i++)
		check(try_read(WINDOW + i * SUPERPAGE + 8, &value) == NONE && value == ENTRIES - 1, "entry %lu: %lx", i,
		      value);
	set(l2_entry(inner), 0);
	invlpg(inner);
	start = ticks();
	while (ticks() - start < 300 * KHZ) {
		uint64_t where = WINDOW + turns++ % AGAIN * SUPERPAGE;

		set(l2_entry(where), 0);
		set(l2_entry(where), ARENA | PS | P | RW | A | D);
		invlpg(where);
		check(try_write(where + (turns & 511) * PAGE + 16, turns) == NONE, "turn %lu", turns);
	}
	print("ABH test aliases: one read %lu us; %lu turns\n", took * 1000 / KHZ, turns);
}
