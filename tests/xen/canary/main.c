// SPDX-License-Identifier: MIT
/* Looks on its own memory without end, and says so when a page is not as it left it. The host ends it. */
#include "../lib/lib.h"

const char test_name[] = "canary";

void test(void)
{
	uint64_t value;

	for (uint64_t extent = 0; extent < EXTENTS; extent++) {
		set(l2_entry(WINDOW + extent * SUPERPAGE), (ARENA + extent * SUPERPAGE) | PS | P | RW | A | D);
		tag_extent(ARENA + extent * SUPERPAGE);
	}
	for (uint64_t round = 0;; round++) {
		for (uint64_t page = 0; page < EXTENTS * SUPERPAGE; page += PAGE)
			check(try_read(WINDOW + page, &value) == NONE && value == tag_of(ARENA + page), "page %lx: %lx",
			      page, value);
		if (round % 64 == 0)
			print("ABH test canary round %lu\n", round);
		/* Most of the time is the other's. */
		for (int i = 0; i < 16; i++)
			yield();
	}
}
