// SPDX-License-Identifier: MIT
/*
 * Two processors: one gives superpages back, whole and by pages, has them again, and makes page tables of their pages,
 * while the other reads and writes by the superpage without end. While nothing changes it finds what was written, and
 * never a page that is not there any more.
 */
#include "../lib/lib.h"

const char test_name[] = "tug";

/* Odd while memory changes. */
static volatile uint64_t phase, done, sure;

static void work_for_ever(void)
{
	uint64_t state = 47, value;

	for (;;) {
		uint64_t page = draw(&state) & 511, slot = draw(&state) & 1, before = phase;
		uint64_t tag = tag_of(ARENA + slot * SUPERPAGE + page * PAGE),
			 where = WINDOW + slot * SUPERPAGE + page * PAGE;
		bool write = draw(&state) & 1;
		long got;

		if (page & 8)
			invlpg(where);
		got = write ? try_write(where, tag) : try_read(where, &value);
		__sync_synchronize();
		if (before == phase && !(before & 1)) {
			check(got == NONE && (write || value == tag), "slot %lu page %lu: fault %lx, %lx, not %lx",
			      slot, page, (uint64_t)got, value, tag);
			sure++;
		}
		done++;
	}
}

static void let_work(uint64_t times)
{
	uint64_t before = done;

	for (int tries = 0; done - before < times && tries < 1000; tries++)
		yield();
}

void test(void)
{
	uint64_t rounds = argument("rounds", 60), state = 53, inner = WINDOW + 9 * SUPERPAGE, value;

	for (uint64_t slot = 0; slot < 2; slot++) {
		tag_extent(ARENA + slot * SUPERPAGE);
		set(l2_entry(WINDOW + slot * SUPERPAGE), (ARENA + slot * SUPERPAGE) | PS | P | RW | A | D);
	}
	start_second(work_for_ever);
	let_work(1000);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t slot = draw(&state) & 1, extent = ARENA + slot * SUPERPAGE, page = draw(&state) & 511;

		phase++;
		__sync_synchronize();
		switch (draw(&state) & 3) {
		case 0:
			check(give_back(extent / PAGE, 9) == 1, "2 MiB cannot be given back");
			let_work(draw(&state) & 63);
			check(ask_for(extent / PAGE, 9) == 1, "2 MiB cannot be had again");
			break;
		case 1:
			check(give_back(extent / PAGE + page, 0) == 1, "a page cannot be given back");
			let_work(draw(&state) & 63);
			check(ask_for(extent / PAGE + page, 0) == 1, "a page cannot be had again");
			break;
		default: /* a page table, which the other writes its tags to: not present, or nonsense */
			for (uint64_t i = 0; i < 512; i++)
				set(at(extent + page * PAGE) + i,
				    i ? (ARENA + 5 * SUPERPAGE + i * PAGE) | P | RW | A | D : 0);
			set(l2_entry(inner), (extent + page * PAGE) | P | RW | A);
			invlpg(inner);
			check(try_read(inner + 3 * PAGE, &value) == NONE, "round %lu: by the table", round);
			let_work(draw(&state) & 63);
			set(l2_entry(inner), 0);
			invlpg(inner);
			for (uint64_t i = 0; i < 512; i++)
				set(at(extent + page * PAGE) + i, 0);
		}
		tag_extent(extent);
		flush();
		__sync_synchronize();
		phase++;
		let_work(200);
	}
	print("ABH test tug %lu accesses, %lu of them sure\n", done, sure);
	check(sure > 1000, "too few that are sure");
}
