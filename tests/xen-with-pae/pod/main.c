// SPDX-License-Identifier: MIT
/*
 * Started with less memory than it is told of (xl.cfg: memory below maxmem): what it has not touched Xen backs on
 * demand, and takes pages that hold zeros back for it. Superpages over all of it are read and written; each page holds
 * what was written last, or zeros.
 */
#include "../lib/lib.h"

const char test_name[] = "pod";

/* All that is free below the tables, and above them up to what is told. */
#define FIRST 8   /* extents of 2 MiB: from 16 MiB */
#define TABLES 24 /* 48 MiB: the library's, 8 MiB of them */
#define AFTER 28
#define LAST 46 /* 92 MiB */
#define MOST 11 /* extents that hold something at a time: what is there to back them */

static uint64_t written[LAST];

void test(void)
{
	uint64_t state = 19, value, first = FIRST;

	for (uint64_t extent = FIRST; extent < LAST; extent++)
		if (extent < TABLES || extent >= AFTER)
			set(l2_entry(WINDOW + extent * SUPERPAGE), extent * SUPERPAGE | PS | P | RW | A | D);
	for (int round = 0; round < 6; round++) {
		for (uint64_t extent = FIRST; extent < LAST; extent++) {
			if (extent >= TABLES && extent < AFTER)
				continue;
			for (uint64_t page = 0; page < 512; page += 1 + (draw(&state) & 31)) {
				check(try_read(WINDOW + extent * SUPERPAGE + page * PAGE, &value) == NONE,
				      "page %lu of extent %lu is not there", page, extent);
				check(value == (written[extent] ? written[extent] + page : 0),
				      "page %lu of extent %lu: %lx", page, extent, value);
			}
		}
		/* What holds something moves on: zeros where it was. */
		for (uint64_t extent = FIRST; extent < LAST; extent++) {
			bool hold = (extent - first) % (LAST - FIRST) < MOST;

			if ((extent >= TABLES && extent < AFTER) || (!hold && !written[extent]))
				continue;
			written[extent] = hold ? draw(&state) | 1 : 0;
			for (uint64_t page = 0; page < 512; page++)
				check(try_write(WINDOW + extent * SUPERPAGE + page * PAGE,
						hold ? written[extent] + page : 0) == NONE,
				      "page %lu of extent %lu cannot be written", page, extent);
		}
		first += 5;
		print("ABH test pod round %lu\n", (uint64_t)round);
	}
}
