// SPDX-License-Identifier: MIT
/*
 * Writes all of its memory by superpages that it maps anew now and then, and checks each page against what it wrote
 * last. With moved=1 it first does so until it is in another domain: a live migration lets it work on for a time that
 * it does not know.
 */
#include "../lib/lib.h"

const char test_name[] = "churn";

static uint64_t written[EXTENTS * 512];

void test(void)
{
	uint64_t rounds = argument("rounds", 400), until = rounds, to_be_moved = argument("moved", 0);
	uint64_t state = 13, value;
	uint16_t domain = own_domain();

	for (uint64_t i = 0; i < EXTENTS; i++)
		set(l2_entry(WINDOW + i * SUPERPAGE), (ARENA + i * SUPERPAGE) | PS | P | RW | A | D);
	for (uint64_t page = 0; page < EXTENTS * 512; page++)
		check(try_write(WINDOW + page * PAGE, written[page] = draw(&state)) == NONE, "page %lu", page);
	for (uint64_t round = 0; round < until; round++) {
		if (to_be_moved && own_domain() == domain)
			until = round + rounds;
		for (int i = 0; i < 2000; i++) {
			uint64_t page = draw(&state) % (EXTENTS * 512);

			check(try_read(WINDOW + page * PAGE, &value) == NONE && value == written[page],
			      "round %lu page %lu: %lx, not %lx", round, page, value, written[page]);
			written[page] = draw(&state);
			check(try_write(WINDOW + page * PAGE, written[page]) == NONE, "round %lu page %lu", round,
			      page);
		}
		uint64_t extent = draw(&state) % EXTENTS;

		set(l2_entry(WINDOW + extent * SUPERPAGE), 0);
		set(l2_entry(WINDOW + extent * SUPERPAGE), (ARENA + extent * SUPERPAGE) | PS | P | RW | A | D);
		invlpg(WINDOW + extent * SUPERPAGE);
		if (round % 64 == 0)
			print("ABH test churn round %lu\n", round);
	}
}
