// SPDX-License-Identifier: MIT
/*
 * A guest that was promised more memory than it has (xl.cfg: maxmem): what it has not touched is populated on demand,
 * by 2 MiB or by pages, and is empty. It keeps what was written, by superpages that were mapped before there was
 * memory behind them, while a part that it never touched is given back and more is touched.
 */
#include "../lib/lib.h"

const char test_name[] = "pod";

#define SPARE UINT64_C(0x4000000) /* 64 MiB: above the library's tables, below the guest's end */
#define SPARES 8                  /* extents of 2 MiB */

static uint64_t view_of(uint64_t physical)
{
	return WINDOW + physical;
}

static void look(uint64_t start, uint64_t extents, const char *when)
{
	uint64_t value;

	for (uint64_t where = start; where < start + extents * SUPERPAGE; where += PAGE)
		check(try_read(view_of(where), &value) == NONE && value == tag_of(where), "%s, %lx: %lx", when, where,
		      value);
}

/* Each page is empty before it is written; every other extent is read first, which populates it too. */
static void fill(uint64_t start, uint64_t extents)
{
	uint64_t value;

	for (uint64_t where = start; where < start + extents * SUPERPAGE; where += PAGE) {
		if (where / SUPERPAGE & 1)
			check(try_read(view_of(where), &value) == NONE && !value, "%lx is not empty: %lx", where,
			      value);
		check(try_write(view_of(where), tag_of(where)) == NONE, "%lx cannot be written", where);
	}
}

void test(void)
{
	uint64_t rounds = argument("rounds", 20), state = 31, value;

	for (uint64_t where = ARENA; where < SPARE + SPARES * SUPERPAGE; where += SUPERPAGE)
		set(l2_entry(view_of(where)), where | PS | P | RW | A | D);
	fill(ARENA, EXTENTS);
	look(ARENA, EXTENTS, "filled");
	/* Never touched: nothing is behind it, which comes off what Xen still owes. */
	check(give_back((SPARE + SUPERPAGE) / PAGE, 9) == 1, "2 MiB that are not there cannot be given back");
	fill(SPARE, 1);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t where = SPARE + 2 * SUPERPAGE + (draw(&state) & 511) * PAGE;

		check(give_back(where / PAGE, 0) == 1, "page %lx cannot be given back", where);
		check(try_read(view_of(where), &value) != NONE || value == ~UINT64_C(0), "page %lx is still there: %lx",
		      where, value);
		check(ask_for(where / PAGE, 0) == 1, "page %lx cannot be had again", where);
		check(try_write(view_of(where), tag_of(where)) == NONE, "page %lx cannot be written", where);
		check(try_read(view_of(where), &value) == NONE && value == tag_of(where), "page %lx: %lx", where,
		      value);
	}
	for (uint64_t extent = 3; extent < SPARES; extent++) {
		uint64_t where = SPARE + extent * SUPERPAGE, page = where + (draw(&state) & 511) * PAGE;

		fill(where, 1);
		look(where, 1, "to be given back");
		check(give_back(where / PAGE, 9) == 1, "2 MiB at %lx cannot be given back", where);
		check(try_read(view_of(page), &value) != NONE || value == ~UINT64_C(0),
		      "page %lx of 2 MiB is still there: %lx", page, value);
	}
	look(ARENA, EXTENTS, "after");
	look(SPARE, 1, "after");
}
