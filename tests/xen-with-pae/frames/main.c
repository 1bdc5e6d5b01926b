// SPDX-License-Identifier: MIT
/*
 * The shapes of XSA-148 and 167 (a superpage whose size or frame nobody checked) and of XSA-173 (a frame number of
 * which bits are lost): bits of the address below 2 MiB, frames beyond the guest's memory, frames that would be its own
 * if the upper bits fell away. None of them may be read or written, and the guest goes on.
 */
#include "../lib/lib.h"

const char test_name[] = "frames";

static void refused(uint64_t entry, const char *what)
{
	uint64_t value = 0;

	set(l2_entry(WINDOW), entry);
	invlpg(WINDOW);
	/* Where there is no memory, no device answers either: a fault, or all-ones. */
	check(try_read(WINDOW, &value) != NONE || value == ~UINT64_C(0), "%s: %lx can be read: %lx", what, entry,
	      value);
	try_write(WINDOW, 0);
	check(*at(ARENA) == tag_of(ARENA), "%s: %lx wrote the guest's own page", what, entry);
}

void test(void)
{
	uint64_t leaf = PS | P | RW | A | D, value;

	tag_extent(ARENA);
	for (int bit = 13; bit < 21; bit++)
		refused(ARENA | UINT64_C(1) << bit | leaf, "a bit below the frame");
	for (int bit = 36; bit < 52; bit++)
		refused(ARENA | UINT64_C(1) << bit | leaf, "a frame beyond");
	refused((UINT64_C(0xffffffffff000) & ~(SUPERPAGE - 1)) | leaf, "the last frame");
	set(l2_entry(WINDOW), ARENA | leaf);
	invlpg(WINDOW);
	check(try_read(WINDOW, &value) == NONE && value == tag_of(ARENA), "its own page reads %lx", value);
}
