// SPDX-License-Identifier: MIT
/*
 * Writes all of its memory by superpages that it maps anew now and then, and checks each page against what it wrote
 * last. With moved=1 it first does so until it is in another domain: a live migration lets it work on for a time that
 * it does not know. With holes=1 it has given back 2 MiB, and pages of two more, which are not there at its end either.
 * With still=1 it maps nothing anew: what becomes of its superpages is Xen's doing alone.
 */
#include "../lib/lib.h"

const char test_name[] = "churn";

#define WHOLE 3     /* the extent that is given back in one piece */
#define SCATTERED 5 /* and the first of two of which pages are */

static uint64_t written[EXTENTS * 512];
static bool gone[EXTENTS * 512];

static void make_holes(uint64_t *state)
{
	check(give_back((ARENA + WHOLE * SUPERPAGE) / PAGE, 9) == 1, "2 MiB could not be given back");
	for (int i = 0; i < 512; i++)
		gone[WHOLE * 512 + i] = true;
	for (int i = 0; i < 20; i++) {
		uint64_t page = SCATTERED * 512 + draw(state) % 1024;

		check(gone[page] || give_back(ARENA / PAGE + page, 0) == 1, "page %lu could not be given back", page);
		gone[page] = true;
	}
}

/* What is not there reads as ones: there is nothing behind it that Xen could ask. */
static void look_at_holes(void)
{
	uint64_t value;

	for (uint64_t page = 0; page < EXTENTS * 512; page++)
		check(!gone[page] || try_read(WINDOW + page * PAGE, &value) != NONE || !~value,
		      "page %lu is there again: %lx", page, value);
}

void test(void)
{
	uint64_t rounds = argument("rounds", 400), until = rounds, to_be_moved = argument("moved", 0);
	uint64_t state = 13, value;
	uint16_t domain = own_domain();

	for (uint64_t i = 0; i < EXTENTS; i++)
		set(l2_entry(WINDOW + i * SUPERPAGE), (ARENA + i * SUPERPAGE) | PS | P | RW | A | D);
	if (argument("holes", 0))
		make_holes(&state);
	look_at_holes();
	for (uint64_t page = 0; page < EXTENTS * 512; page++)
		check(gone[page] || try_write(WINDOW + page * PAGE, written[page] = draw(&state)) == NONE, "page %lu",
		      page);
	for (uint64_t round = 0; round < until; round++) {
		if (to_be_moved && own_domain() == domain)
			until = round + rounds;
		for (int i = 0; i < 2000; i++) {
			uint64_t page = draw(&state) % (EXTENTS * 512);

			if (gone[page])
				continue;
			check(try_read(WINDOW + page * PAGE, &value) == NONE && value == written[page],
			      "round %lu page %lu: %lx, not %lx", round, page, value, written[page]);
			written[page] = draw(&state);
			check(try_write(WINDOW + page * PAGE, written[page]) == NONE, "round %lu page %lu", round,
			      page);
		}
		uint64_t extent = draw(&state) % EXTENTS;

		if (round % 64 == 0)
			print("ABH test churn round %lu\n", round);
		if (argument("still", 0))
			continue;

		set(l2_entry(WINDOW + extent * SUPERPAGE), 0);
		set(l2_entry(WINDOW + extent * SUPERPAGE), (ARENA + extent * SUPERPAGE) | PS | P | RW | A | D);
		invlpg(WINDOW + extent * SUPERPAGE);
	}
	look_at_holes();
}
