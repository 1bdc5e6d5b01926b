// SPDX-License-Identifier: MIT
/*
 * Two processors: one changes an entry between superpages and a table, half of whose entries map nothing, while the
 * other reads there without end. It may find what either superpage or the table maps, or nothing, and never what no
 * entry ever named: the first pages of both superpages are full of what Xen's shadow marks emulated memory with, of a
 * frame that is mapped nowhere. Xen would take it for its own mark if it read a superpage for a table.
 */
#include "../lib/lib.h"

const char test_name[] = "race";

#define OFFSET UINT64_C(64) /* of a page's own word in it */
#define HIDDEN (ARENA + 2 * SUPERPAGE)
#define SECRET UINT64_C(0x5ec3e7)
/* SH_L1E_MMIO_MAGIC with a frame (xen/arch/x86/mm/shadow/types.h) */
#define MARK(frame) (UINT64_C(0xfffff00000000001) | (frame) << 4)

static volatile uint64_t reads, nothing;
static uint64_t *table;

static void mark_extent(uint64_t extent)
{
	for (uint64_t i = 0; i < 512; i++)
		set(at(extent) + i, MARK(HIDDEN / PAGE));
	for (uint64_t page = 0; page < 512; page++)
		set(at(extent + page * PAGE + OFFSET), tag_of(extent + page * PAGE));
}

/* In 32 bits a value is read one half after the other, and the entry may change in between. */
static bool is_either(uint64_t value, uint64_t one, uint64_t other)
{
	if (sizeof(long) == sizeof(value))
		return value == one || value == other;
	return ((uint32_t)value == (uint32_t)one || (uint32_t)value == (uint32_t)other) &&
	       (value >> 32 == one >> 32 || value >> 32 == other >> 32);
}

static void read_for_ever(void)
{
	uint64_t state = 41, value;

	for (;;) {
		uint64_t page = draw(&state) & 511, where = WINDOW + page * PAGE;
		long got;

		if (!(page & 15))
			invlpg(where);
		got = try_read(where + OFFSET, &value);
		if (got != NONE)
			nothing++;
		check(got == 0 || got == NONE, "page %lu: fault %lx", page, (uint64_t)got);
		check(got == 0 ||
			      is_either(value, tag_of(ARENA + page * PAGE), tag_of(ARENA + SUPERPAGE + page * PAGE)),
		      "page %lu reads %lx", page, value);
		reads++;
	}
}

void test(void)
{
	uint64_t rounds = argument("rounds", 500), state = 43, *entry = l2_entry(WINDOW);
	uint64_t leaf = PS | P | RW | A | D, before;

	table = new_table();
	mark_extent(ARENA);
	mark_extent(ARENA + SUPERPAGE);
	for (uint64_t page = 0; page < 512; page++)
		set(at(HIDDEN + page * PAGE + OFFSET), SECRET);
	for (uint64_t i = 0; i < 512; i += 2)
		set(table + i, (ARENA + SUPERPAGE + i * PAGE) | P | RW | A | D);
	set(entry, ARENA | leaf);
	start_second(read_for_ever);
	while (reads < 1000)
		yield();
	for (uint64_t round = 0; round < rounds; round++) {
		static const int kinds[] = { 0, 1, 2, 1, 0, 2, 0, 1 };
		int kind = kinds[draw(&state) & 7];

		before = reads;
		set(entry, kind == 1 ? address_of(table) | P | RW | A : (ARENA + (kind ? SUPERPAGE : 0)) | leaf);
		invlpg(WINDOW);
		for (int tries = 0; reads - before < (draw(&state) & 31) && tries < 1000; tries++)
			yield();
	}
	check(nothing > 100, "the other processor met an empty entry %lu times", nothing);
	print("ABH test race %lu reads, %lu of nothing\n", reads, nothing);
}
