// SPDX-License-Identifier: MIT
/* A read sets the guest's accessed bit, and only a write its dirty bit, each time that the guest has cleared them. */
#include "../lib/lib.h"

const char test_name[] = "accessed-dirty";

void test(void)
{
	uint64_t state = 11, value, *entry = l2_entry(WINDOW);

	for (int round = 0; round < 3000; round++) {
		uint64_t frame = ARENA + (draw(&state) & 3) * SUPERPAGE, offset = draw(&state) & (SUPERPAGE - 8);

		set(entry, frame | PS | P | RW);
		invlpg(WINDOW);
		check(try_read(WINDOW + offset, &value) == NONE, "read");
		check((*entry & (A | D)) == A, "after a read: %lx", *entry);
		check(try_write(WINDOW + offset, round) == NONE, "write");
		check((*entry & (A | D)) == (A | D), "after a write: %lx", *entry);
		set(entry, *entry & ~D);
		invlpg(WINDOW);
		check(try_read(WINDOW + offset, &value) == NONE && value == (uint64_t)round, "read: %lx", value);
		check(!(*entry & D), "dirty without a write: %lx", *entry);
		check(try_write(WINDOW + offset, 1) == NONE && (*entry & D), "write without dirty: %lx", *entry);
	}
}
