// SPDX-License-Identifier: MIT
/*
 * A guest with much memory (xl.cfg), all of which it maps by superpages and touches page by page, for as long as the
 * host may want it so: what it costs to be rid of its shadows. It says itself, in ticks of its clock, what it costs to
 * give one page back, for which Xen looks through all of them.
 */
#include "../lib/lib.h"

const char test_name[] = "wide";

#define FIRST 32 /* extents of 2 MiB: from 64 MiB, above the library's tables */
#define LAST 250 /* below 500 MiB */

static uint64_t ticks(void)
{
	uint32_t low, high;

	asm volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

static void touch(uint64_t round)
{
	uint64_t value;

	for (uint64_t extent = FIRST; extent < LAST; extent++)
		for (uint64_t page = 0; page < 512; page++) {
			uint64_t where = WINDOW + extent * SUPERPAGE + page * PAGE;

			check(try_read(where, &value) == NONE && (!round || value == tag_of(where) + round - 1),
			      "round %lu, %lx: %lx", round, where, value);
			check(try_write(where, tag_of(where) + round) == NONE, "round %lu, %lx", round, where);
		}
}

void test(void)
{
	uint64_t rounds = argument("rounds", 3), start, took, page = (FIRST + 1) * 512 + 5;

	for (uint64_t extent = FIRST; extent < LAST; extent++)
		set(l2_entry(WINDOW + extent * SUPERPAGE), extent * SUPERPAGE | PS | P | RW | A | D);
	touch(0);
	start = ticks();
	check(give_back(page, 0) == 1, "a page cannot be given back");
	took = ticks() - start;
	print("ABH test wide ticks %lu to give a page back\n", took);
	check(ask_for(page, 0) == 1, "a page cannot be had again");
	check(try_write(WINDOW + page * PAGE, tag_of(WINDOW + page * PAGE)) == NONE, "what came cannot be written");
	for (uint64_t round = 1; round <= rounds; round++) {
		print("ABH test wide round %lu\n", round);
		touch(round);
	}
	print("ABH test wide ticks %lu to give a page back\n", took); /* among the last lines, which the host keeps */
}
