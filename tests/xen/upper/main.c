// SPDX-License-Identifier: MIT
/*
 * Writes with CR0.WP clear to what is writable by its leaf, and read-only by an entry above it, of each level: the
 * processor lets the kernel write, and Xen has to do it for it. The second processor says so where that never ends.
 */
#include "../lib/lib.h"

const char test_name[] = "upper";

#define WP (UINT64_C(1) << 16)

#ifdef __x86_64__
static volatile uint64_t done, at_work, level;

static void watch(void)
{
	uint64_t before = ~UINT64_C(0), turns = 0;

	for (;;) {
		yield();
		if (done != before)
			before = done, turns = 0;
		check(!at_work || turns++ < 300, "a write with CR0.WP clear never ends, read-only at level %lu", level);
	}
}

static void write_protect(bool on)
{
	uint64_t cr0;

	asm volatile("mov %%cr0, %0" : "=r"(cr0));
	asm volatile("mov %0, %%cr0" ::"r"(on ? cr0 | WP : cr0 & ~WP) : "memory");
}
#endif

void test(void)
{
#ifdef __x86_64__
	uint64_t *l3 = new_table(), *l2 = new_table(), *l1 = new_table(), slot = 3, start = slot << 39, value;

	start_second(watch);
	for (uint64_t big = 0; big < 2; big++)
		for (level = argument("level", 1); level < 5; level++) {
			uint64_t rights = P | RW | A | D, where = start + level * PAGE + 8;

			set(at(ARENA + level * PAGE + 8), 0);
			set(l1 + level, (ARENA + level * PAGE) | (level == 1 ? P | A : rights));
			set(l2, big ? ARENA | PS | (level == 2 ? P | A : rights)
				    : address_of(l1) | (level == 2 ? P | A : rights));
			set(l3, address_of(l2) | P | A | (level == 3 ? 0 : RW));
			set(top_table + slot, address_of(l3) | P | A | (level == 4 ? 0 : RW));
			flush();
			check(try_read(where, &value) == NONE && !value, "read at level %lu: %lx", level, value);
			check((big && level == 1) || try_write(where, 1) == (PF_P | PF_W), "level %lu is not read-only",
			      level);
			write_protect(false);
			at_work = 1;
			check(try_write(where, 40 + level) == NONE, "no write at level %lu", level);
			at_work = 0;
			done++;
			write_protect(true);
			check(*at(ARENA + level * PAGE + 8) == 40 + level, "what was written did not arrive");
			check((big && level == 1) || try_write(where, 1) == (PF_P | PF_W),
			      "level %lu is not read-only after that", level);
			print("ABH test upper big %lu level %lu\n", big, level);
		}
#else
	skip("in 32 bits with PAE only leaves and one level above them say so");
#endif
}
