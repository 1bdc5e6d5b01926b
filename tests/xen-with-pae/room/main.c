// SPDX-License-Identifier: MIT
/*
 * More page tables than Xen has shadows for (xl.cfg: little shadow_memory), and superpages between them: what is
 * thrown away for want of room comes back as it was.
 */
#include "../lib/lib.h"

const char test_name[] = "room";

#define TABLES 1024 /* 4 MiB of tables, each of which takes a shadow */
#define WINDOW_SLOTS 512

static uint64_t *tables[TABLES];

/* What a page shows in table t: the table's own rotation of an extent. */
static uint64_t frame_of(uint64_t t, uint64_t i)
{
	return ARENA + t % EXTENTS * SUPERPAGE + ((i + t) & 511) * PAGE;
}

void test(void)
{
	uint64_t rounds = argument("rounds", 4), state = 23, value;

	for (uint64_t extent = 0; extent < EXTENTS; extent++)
		tag_extent(ARENA + extent * SUPERPAGE);
	for (uint64_t t = 0; t < TABLES; t++) {
		tables[t] = new_table();
		for (uint64_t i = 0; i < 512; i++)
			set(tables[t] + i, frame_of(t, i) | P | RW | A | D);
	}
	for (uint64_t round = 0; round < rounds; round++)
		for (uint64_t t = 0; t < TABLES; t++) {
			uint64_t slot = draw(&state) % (WINDOW_SLOTS / 2), extent = draw(&state) % EXTENTS;
			uint64_t small = WINDOW + 2 * slot * SUPERPAGE, big = small + SUPERPAGE;

			set(l2_entry(small), address_of(tables[t]) | P | RW | A);
			set(l2_entry(big), (ARENA + extent * SUPERPAGE) | PS | P | RW | A | D);
			flush();
			for (int i = 0; i < 4; i++) {
				uint64_t page = draw(&state) & 511;

				check(try_read(small + page * PAGE, &value) == NONE &&
					      value == tag_of(frame_of(t, page)),
				      "table %lu page %lu: %lx", t, page, value);
				check(try_write(small + page * PAGE, value) == NONE, "table %lu page %lu", t, page);
				check(try_read(big + page * PAGE, &value) == NONE &&
					      value == tag_of(ARENA + extent * SUPERPAGE + page * PAGE),
				      "extent %lu page %lu: %lx", extent, page, value);
				check(try_write(big + page * PAGE, value) == NONE, "extent %lu page %lu", extent, page);
			}
		}
}
