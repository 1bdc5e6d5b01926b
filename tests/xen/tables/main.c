// SPDX-License-Identifier: MIT
/*
 * Pages of a superpage that is mapped writable become page tables, and data again: what is written through the
 * superpage is what the tables say from the next flush on, and the superpage stays writable all the time.
 */
#include "../lib/lib.h"

const char test_name[] = "tables";

static void use_as_table(uint64_t table, uint64_t frames, uint64_t view)
{
	uint64_t where = WINDOW + 5 * SUPERPAGE, value;

	for (int i = 0; i < 512; i++)
		check(try_write(view + i * 8, (frames + (511 - i) * PAGE) | P | RW | A | D) == NONE, "entry %lu",
		      (uint64_t)i);
	set(l2_entry(where), table | P | RW | A);
	invlpg(where);
	for (uint64_t i = 0; i < 512; i += 37) {
		check(try_read(where + i * PAGE, &value) == NONE, "no read through entry %lu", i);
		check(value == tag_of(frames + (511 - i) * PAGE), "entry %lu: %lx", i, value);
	}
	/* One entry is changed while the table is in use, through the superpage. */
	check(try_write(view + 8, frames | P | A) == NONE, "change of an entry");
	invlpg(where + PAGE);
	check(try_read(where + PAGE, &value) == NONE && value == tag_of(frames), "changed entry: %lx", value);
	check(try_write(where + PAGE, 0) == (PF_P | PF_W), "changed entry is writable");
	set(l2_entry(where), 0);
	invlpg(where);
	check(try_read(where, &value) == 0, "the table is gone, its page is mapped");
}

void test(void)
{
	uint64_t rounds = argument("rounds", 300), state = 7, view = WINDOW, value;

	set(l2_entry(view), ARENA | PS | P | RW | A | D);
	tag_extent(ARENA + SUPERPAGE);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t offset = (draw(&state) & 511) * PAGE;

		if (round % 16 == 0)
			print("ABH test tables round %lu\n", round);

		use_as_table(ARENA + offset, ARENA + SUPERPAGE, view + offset);
		/* Data again: each page of the superpage can be written, and read back. */
		for (uint64_t i = 0; i < 512; i += 17) {
			check(try_write(view + i * PAGE, round ^ i) == NONE, "page %lu is not writable", i);
			check(try_read(view + i * PAGE, &value) == NONE && value == (round ^ i), "page %lu: %lx", i,
			      value);
		}
	}
}
