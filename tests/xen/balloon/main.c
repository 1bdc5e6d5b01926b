// SPDX-License-Identifier: MIT
/*
 * Pages are given back to Xen out of a superpage that is mapped, and asked for again: what was given back is out of
 * reach at once, what comes back is another page, and the others keep what they hold.
 */
#include "../lib/lib.h"

const char test_name[] = "balloon";

#define HYPERVISOR_memory_op 12
#define XENMEM_decrease_reservation 1
#define XENMEM_populate_physmap 6

static uint64_t change(unsigned int op, uint64_t frame, unsigned int order)
{
	uint64_t frames[1] = { frame };
	struct {
		uint64_t *extents, count;
		uint32_t order, flags;
		uint16_t domain;
	} what = { frames, 1, order, 0, 0x7ff0 };

	return hypercall(HYPERVISOR_memory_op, op, (uint64_t)&what, 0);
}

static void look(uint64_t except)
{
	uint64_t value;

	for (uint64_t i = 0; i < 512; i++) {
		if (i == except)
			continue;
		check(try_read(WINDOW + i * PAGE, &value) == NONE && value == tag_of(ARENA + i * PAGE), "page %lu: %lx",
		      i, value);
	}
}

void test(void)
{
	uint64_t state = 9, value;

	for (int round = 0; round < 40; round++) {
		uint64_t page = draw(&state) & 511, where = WINDOW + page * PAGE, frame = (ARENA + page * PAGE) / PAGE;

		tag_extent(ARENA);
		set(l2_entry(WINDOW), ARENA | PS | P | RW | A | D);
		invlpg(WINDOW);
		look(512);
		check(change(XENMEM_decrease_reservation, frame, 0) == 1, "page %lx could not be given back", frame);
		check(try_read(where, &value) != NONE || value != tag_of(ARENA + page * PAGE),
		      "page %lu is still there", page);
		look(page);
		check(change(XENMEM_populate_physmap, frame, 0) == 1, "page %lx could not be had again", frame);
		check(try_write(where, tag_of(ARENA + page * PAGE)) == NONE, "page %lu cannot be written", page);
		look(512);
		if (round % 4)
			continue;
		/* All of it, and back in one piece. */
		check(change(XENMEM_decrease_reservation, ARENA / PAGE, 9) == 1 || round,
		      "2 MiB could not be given back");
		change(XENMEM_populate_physmap, ARENA / PAGE, 9);
	}
}
