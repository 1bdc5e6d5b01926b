// SPDX-License-Identifier: MIT
/* INVLPG of any address of a superpage forgets all of it: after a change of the frame every page reads anew. */
#include "../lib/lib.h"

const char test_name[] = "invlpg";

void test(void)
{
	uint64_t state = 3, value;

	for (uint64_t extent = 0; extent < 4; extent++)
		tag_extent(ARENA + extent * SUPERPAGE);
	for (int round = 0; round < 3000; round++) {
		uint64_t frame = ARENA + (draw(&state) & 3) * SUPERPAGE;

		set(l2_entry(WINDOW), frame | PS | P | RW | A | D);
		invlpg(WINDOW + (draw(&state) & (SUPERPAGE - 1)));
		for (int i = 0; i < 20; i++) {
			uint64_t offset = (draw(&state) & 511) * PAGE;

			check(try_read(WINDOW + offset, &value) == NONE && value == tag_of(frame + offset),
			      "offset %lx of %lx reads %lx", offset, frame, value);
		}
	}
}
