// SPDX-License-Identifier: MIT
/*
 * Pages of 2 MiB change places: two are given back to Xen and asked for the other way round, so that each frame of the
 * guest has the memory of the other. What is in pieces so must not be mapped by one entry, though each page of it is
 * the guest's own, and all but the two lie where one extent would have them. It is written by pages, and read by the
 * guest's superpage.
 */
#include "../lib/lib.h"

const char test_name[] = "exchanged";

void test(void)
{
	uint64_t state = 17, pages = WINDOW + SUPERPAGE, value;
	uint64_t *table = new_table();

	for (int i = 0; i < 512; i++)
		table[i] = (ARENA + i * PAGE) | P | RW | A | D;
	set(l2_entry(pages), address_of(table) | P | RW | A);
	for (int round = 0; round < 10; round++) {
		uint64_t extent = ARENA + round * SUPERPAGE, one = draw(&state) & 511;
		uint64_t other = (one + 1 + draw(&state) % 511) & 511;

		for (uint64_t i = 0; i < 512; i++)
			set(table + i, (extent + i * PAGE) | P | RW | A | D);
		flush();
		check(give_back(extent / PAGE + one, 0) == 1, "page %lu could not be given back", one);
		check(give_back(extent / PAGE + other, 0) == 1, "page %lu could not be given back", other);
		/* Xen gives out first what it had back last. */
		check(ask_for(extent / PAGE + one, 0) == 1, "page %lu could not be had again", one);
		check(ask_for(extent / PAGE + other, 0) == 1, "page %lu could not be had again", other);
		for (uint64_t i = 0; i < 512; i++)
			check(try_write(pages + i * PAGE, tag_of(extent + i * PAGE)) == NONE, "page %lu", i);
		set(l2_entry(WINDOW), extent | PS | P | RW | A | D);
		invlpg(WINDOW);
		/* From one that lies where it should to those that do not. */
		for (uint64_t i = 0; i < 512; i++) {
			uint64_t page = (one + 1 + i) & 511;

			check(try_read(WINDOW + page * PAGE, &value) == NONE && value == tag_of(extent + page * PAGE),
			      "round %d, %lu and %lu changed, page %lu: %lx", round, one, other, page, value);
		}
		/* The other way round again: one extent, which is mapped by one entry. */
		check(give_back(extent / PAGE + one, 0) == 1 && give_back(extent / PAGE + other, 0) == 1 &&
			      ask_for(extent / PAGE + one, 0) == 1 && ask_for(extent / PAGE + other, 0) == 1,
		      "they did not change back");
	}
	set(l2_entry(WINDOW), (ARENA + 11 * SUPERPAGE) | PS | P | RW | A | D);
	invlpg(WINDOW);
	check(try_write(WINDOW, 1) == NONE, "one extent");
}
