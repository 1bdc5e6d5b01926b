// SPDX-License-Identifier: MIT
/*
 * Pages are given back to Xen out of a superpage that is mapped, and asked for again: what was given back is out of
 * reach at once, what comes back is another page, and the others keep what they hold.
 */
#include "../lib/lib.h"

const char test_name[] = "balloon";

static void look(uint64_t except)
{
	uint64_t value;

	for (uint64_t i = 0; i < 512; i++) {
		if (i == except)
			continue;
		check(try_read(WINDOW + i * PAGE, &value) == NONE && value == tag_of(ARENA + i * PAGE), "page %lu: %lx",
		      i, value);
	}
}

void test(void)
{
	uint64_t state = 9, value;

	for (int round = 0; round < 40; round++) {
		uint64_t page = draw(&state) & 511, where = WINDOW + page * PAGE, frame = (ARENA + page * PAGE) / PAGE;

		tag_extent(ARENA);
		set(l2_entry(WINDOW), ARENA | PS | P | RW | A | D);
		invlpg(WINDOW);
		look(512);
		check(give_back(frame, 0) == 1, "page %lx could not be given back", frame);
		check(try_read(where, &value) != NONE || value != tag_of(ARENA + page * PAGE),
		      "page %lu is still there", page);
		look(page);
		check(ask_for(frame, 0) == 1, "page %lx could not be had again", frame);
		check(try_write(where, tag_of(ARENA + page * PAGE)) == NONE, "page %lu cannot be written", page);
		look(512);
		if (round % 4)
			continue;
		/* All of it, and back in one piece, which is mapped in one piece again though the entry stays. */
		check(give_back(ARENA / PAGE, 9) == 1, "2 MiB could not be given back");
		check(try_read(where, &value) != NONE || value == ~UINT64_C(0), "2 MiB are still there: %lx", value);
		check(ask_for(ARENA / PAGE, 9) == 1, "2 MiB could not be had again");
		for (uint64_t i = 0; i < 512; i++)
			check(try_write(WINDOW + i * PAGE, tag_of(ARENA + i * PAGE)) == NONE, "page %lu after all", i);
		look(512);
	}
}
