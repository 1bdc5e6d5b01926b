// SPDX-License-Identifier: MIT
/*
 * A superpage holds a page table, and its dirty bit is clear: while it is only read it can be mapped whole, as nobody
 * can write the table through it. Then another of its pages is written: it has to be splintered, for the table to be
 * watched still.
 */
#include "../lib/lib.h"

const char test_name[] = "clean";

void test(void)
{
	uint64_t rounds = argument("rounds", 400), state = 17, value, *entry = l2_entry(WINDOW);
	uint64_t table = PAGE * 5, by_table = WINDOW + SUPERPAGE, frame = ARENA + SUPERPAGE;

	tag_extent(frame);
	for (int i = 0; i < 512; i++)
		set(at(ARENA + table) + i, (frame + i * PAGE) | P | RW | A | D);
	set(l2_entry(by_table), (ARENA + table) | P | RW | A);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t page = PAGE * (6 + draw(&state) % 506), used = draw(&state) & 511;
		uint64_t reached = by_table + used * PAGE, tag = tag_of(frame + used * PAGE);

		/* What an entry of the table says is known when it is changed. */
		check(try_write(reached, tag) == NONE, "entry %lu", used);
		set(at(ARENA + page), round);
		set(entry, ARENA | PS | P | RW);
		invlpg(WINDOW);
		check(try_read(WINDOW + page, &value) == NONE && value == round, "page %lx: %lx", page, value);
		check(try_read(WINDOW + table, &value) == NONE && value == *at(ARENA + table), "the table: %lx", value);
		check(!(*entry & D), "dirty without a write: %lx", *entry);
		check(try_write(WINDOW + page, ~round) == NONE && *entry & D, "write to page %lx: %lx", page, *entry);
		check(*at(ARENA + page) == ~round, "page %lx was not written", page);

		/* What is written to the table through the superpage is what is reached by the table. */
		check(try_write(WINDOW + table + 8 * used, (frame + used * PAGE) | P | A) == NONE, "to entry %lu",
		      used);
		invlpg(reached);
		check(try_write(reached, 0) == (PF_P | PF_W), "entry %lu is writable", used);
		check(try_read(reached, &value) == NONE && value == tag, "by entry %lu: %lx", used, value);
		set(at(ARENA + table) + used, (frame + used * PAGE) | P | RW | A | D);
		/* Xen lets a written table go out of step with its shadow until a flush. From here on it is watched. */
		flush();
	}
}
