// SPDX-License-Identifier: MIT
/* The same addresses by a superpage, by 4 KiB leaves, by nothing, in turn and with other frames each time. */
#include "../lib/lib.h"

const char test_name[] = "sizes";

void test(void)
{
	uint64_t rounds = argument("rounds", 2000), state = 5, value, *table = new_table(), *entry = l2_entry(WINDOW);

	for (uint64_t extent = 0; extent < EXTENTS; extent++)
		tag_extent(ARENA + extent * SUPERPAGE);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t frame = ARENA + draw(&state) % EXTENTS * SUPERPAGE, kind = draw(&state) % 5;

		if (kind == 1)
			for (int i = 0; i < 512; i++)
				set(table + i, (frame + i * PAGE) | P | RW | A | D);
		set(entry, kind == 0 ? 0 : kind == 1 ? address_of(table) | P | RW | A : frame | PS | P | A | D | RW);
		if (round & 1)
			invlpg(WINDOW);
		else
			flush();
		/* invlpg forgets one page of a table, so only that one is looked at then. */
		for (int i = 0; i < (round & 1 ? 1 : 8); i++) {
			uint64_t offset = round & 1 ? 0 : (draw(&state) & 511) * PAGE;
			long got = try_read(WINDOW + offset, &value);

			check(got == (kind ? NONE : 0), "kind %lu offset %lx: %lx", kind, offset, (uint64_t)got);
			check(!kind || value == tag_of(frame + offset), "kind %lu of %lx: %lx", kind, frame + offset,
			      value);
		}
	}
}
