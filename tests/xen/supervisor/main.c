// SPDX-License-Identifier: MIT
/*
 * Superpages that are the user's, and the supervisor's: under SMAP the supervisor reads and writes the user's only
 * while it says so (AC), under SMEP it never runs them; and each time that the guest's entry has changed, what it says
 * holds.
 */
#include "../lib/lib.h"

const char test_name[] = "supervisor";

#define SMEP (1UL << 20)
#define SMAP (1UL << 21)

static uint32_t features(void)
{
	uint32_t a = 7, b, c = 0, d;

	asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b;
}

static void set_cr4(unsigned long clear, unsigned long add)
{
	unsigned long cr4;

	asm volatile("mov %%cr4, %0" : "=r"(cr4));
	asm volatile("mov %0, %%cr4" ::"r"((cr4 & ~clear) | add) : "memory");
}

static void expect(uint64_t where, bool user, bool smap, bool smep, bool ac)
{
	long data = user && smap && !ac ? PF_P : NONE, jump = user && smep ? PF_P | PF_I : NONE, got;
	uint64_t value;

	if (ac)
		asm volatile("stac" ::: "memory");
	got = try_read(where + 8, &value);
	check(got == data, "read, user %lu smap %lu ac %lu: %lx", (uint64_t)user, (uint64_t)smap, (uint64_t)ac,
	      (uint64_t)got);
	got = try_write(where + 16, 1);
	check(got == (data == NONE ? NONE : PF_P | PF_W), "write, user %lu smap %lu ac %lu: %lx", (uint64_t)user,
	      (uint64_t)smap, (uint64_t)ac, (uint64_t)got);
	got = try_jump(where);
	check(got == jump, "jump, user %lu smep %lu: %lx", (uint64_t)user, (uint64_t)smep, (uint64_t)got);
	if (ac)
		asm volatile("clac" ::: "memory");
}

void test(void)
{
	uint64_t state = 29;

	if ((features() & 0x100080) != 0x100080)
		skip("this processor has no SMEP or no SMAP");
#ifdef __x86_64__
	/* The window is the user's as far as its upper entries go. With PAE these say nothing of it. */
	top_table[WINDOW >> 39 & 511] |= US;
	*(at(top_table[WINDOW >> 39 & 511] & ADDRESS) + (WINDOW >> 30 & 511)) |= US;
#endif
	flush();
	*(volatile uint8_t *)at(ARENA) = 0xc3; /* ret */
	for (int round = 0; round < 2000; round++) {
		uint64_t r = draw(&state), where = WINDOW + SUPERPAGE * (r & 3);
		bool user = r & 4;
		unsigned long cr4;

		set(l2_entry(where), ARENA | PS | P | RW | A | D | (user ? US : 0));
		invlpg(where);
		if (!(r & 0xe0)) /* now and then, as it flushes all */
			set_cr4(SMAP | SMEP, (r & 8 ? SMAP : 0) | (r & 16 ? SMEP : 0));
		asm volatile("mov %%cr4, %0" : "=r"(cr4));
		expect(where, user, cr4 & SMAP, cr4 & SMEP, false);
		if (cr4 & SMAP)
			expect(where, user, true, cr4 & SMEP, true);
	}
	set_cr4(SMAP | SMEP, 0);
}
