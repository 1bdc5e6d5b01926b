// SPDX-License-Identifier: MIT
/*
 * The rights of a superpage are those of the guest's entry, each time that it has changed: present, writable,
 * executable.
 */
#include "../lib/lib.h"

const char test_name[] = "permissions";

static void expect(uint64_t *entry, uint64_t flags, uint64_t where)
{
	long read_fault = flags & P ? NONE : 0, write_fault = flags & RW ? read_fault : flags & P ? PF_P | PF_W : PF_W;
	long jump_fault = !(flags & P) ? PF_I : flags & NX ? PF_P | PF_I : NONE;
	uint64_t value;

	set(entry, ARENA | PS | A | D | flags);
	invlpg(where);
	if (!(flags & P))
		write_fault = PF_W;
	for (int again = 0; again < 2; again++) {
		long got = try_read(where + 8, &value);

		check(got == read_fault, "read with flags %lx: %lx, not %lx", flags, (uint64_t)got,
		      (uint64_t)read_fault);
		got = try_write(where + 16, 1);
		check(got == write_fault, "write with flags %lx: %lx, not %lx", flags, (uint64_t)got,
		      (uint64_t)write_fault);
		got = try_jump(where);
		check(got == jump_fault, "jump with flags %lx: %lx, not %lx", flags, (uint64_t)got,
		      (uint64_t)jump_fault);
	}
}

void test(void)
{
	static const uint64_t flags[] = { P | RW, P, P | RW, 0, P | NX, P | RW | NX, 0, P | RW };

	*(volatile uint8_t *)at(ARENA) = 0xc3; /* ret */
	for (unsigned int i = 0; i < 4096; i++) {
		uint64_t where = WINDOW + SUPERPAGE * (i % 3);

		expect(l2_entry(where), flags[i % 8], where);
		expect(l2_entry(where), flags[(i / 8) % 8], where);
	}
}
