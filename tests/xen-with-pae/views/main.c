// SPDX-License-Identifier: MIT
/* One page by a superpage, by a 4 KiB leaf, and by the identity map: what one writes the others read, and no right of
 * one becomes another's. */
#include "../lib/lib.h"

const char test_name[] = "views";

void test(void)
{
	uint64_t big = WINDOW, small = WINDOW + SUPERPAGE, *table = new_table(), state = 1, value;

	set(l2_entry(big), ARENA | PS | P | RW | A | D);
	set(l2_entry(small), address_of(table) | P | RW | A);
	tag_extent(ARENA);
	for (int i = 0; i < 512; i++)
		set(table + i, (ARENA + i * PAGE) | P | A | D | (i & 1 ? RW : 0));
	flush();
	for (int round = 0; round < 20000; round++) {
		uint64_t offset = (draw(&state) & 511) * PAGE + (draw(&state) & 511) * 8, mark = draw(&state);
		int writable = offset / PAGE & 1;

		check(try_write(small + offset, mark) == (writable ? NONE : PF_P | PF_W), "4 KiB view, offset %lx",
		      offset);
		if (!writable)
			check(try_write(big + offset, mark) == NONE, "2 MiB view, offset %lx", offset);
		check(try_read(big + offset, &value) == NONE && value == mark, "2 MiB view reads %lx, not %lx", value,
		      mark);
		check(try_read(small + offset, &value) == NONE && value == mark, "4 KiB view reads %lx, not %lx", value,
		      mark);
		check(*at(ARENA + offset) == mark, "identity map reads %lx, not %lx", *at(ARENA + offset), mark);
	}
}
