// SPDX-License-Identifier: MIT
/* The program's part starts anywhere in its hugepages. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../cases.h"
#include "slack.h"

#define MANY 32

static void offsets(void)
{
	long vmas = count_vmas(), size = of_process("VmSize");
	size_t distinct = 0, huge = 0;
	char *at[MANY];

	for (size_t i = 0; i < MANY; i++) {
		bool seen = false;

		fill(at[i] = map(ODD), ODD, (int)i + 1);
		for (size_t j = 0; j < i; j++)
			seen |= ((uintptr_t)at[i] ^ (uintptr_t)at[j]) % HUGE == 0;
		distinct += !seen;
		huge += in_hugepages(at[i], ODD);
	}
	value("offsets.distinct", (long)distinct);
	value("offsets.huge_kib", (long)(huge / KIB));
	if (on() && has_knob("mmap_offset") && (distinct < MANY / 2 || huge != MANY * ODD))
		fails("%zu offsets of %d, %zu KiB in hugepages", distinct, MANY, huge / KIB);
	for (size_t i = 0; i < MANY; i++)
		expect(at[i], ODD, (int)i + 1, "mapping");
	/* Those that are left keep what they have, whatever goes around them. */
	for (size_t step = 0; step < 3; step++)
		for (size_t i = step; i < MANY; i += 3) {
			munmap(at[i], ODD);
			at[i] = NULL;
			for (size_t j = 0; j < MANY; j++)
				if (at[j])
					expect(at[j], ODD, (int)j + 1, "mapping that is left");
		}
	if (count_vmas() != vmas || of_process("VmSize") != size)
		fails("%ld VMAs and %ld KiB are left", count_vmas() - vmas, of_process("VmSize") - size);
}

/* Calls in and around both margins. */
static void margins(void)
{
	long size = of_process("VmSize");

	for (int i = 0; i < 50; i++) {
		char *at = map(ODD), *low = (char *)((uintptr_t)at & ~(HUGE - 1));

		fill(at, ODD, 1);
		switch (i % 5) {
		case 0: /* right before */
			if (mmap(at - PAGE, PAGE, RW, PLAIN | MAP_FIXED_NOREPLACE, -1, 0) != at - PAGE)
				fails("MAP_FIXED_NOREPLACE right before: %s", strerror(errno));
			munmap(at - PAGE, PAGE);
			break;
		case 1: /* the owner's part changes */
			mprotect(at, ODD, PROT_READ);
			mprotect(at, ODD, RW);
			break;
		case 2:
			if (mremap(at, ODD, MIB, 0) != at)
				fails("mremap() to less: %s", strerror(errno));
			break;
		case 3: /* around all of it */
			munmap(on() ? low : at, on() ? 2 * HUGE : ODD);
			if (of_process("VmSize") != size)
				fails("munmap() around a mapping: %ld KiB are left", of_process("VmSize") - size);
			continue;
		}
		expect(at, i % 5 == 2 ? MIB : ODD, 1, "owner");
		munmap(at, ODD);
		if (of_process("VmSize") != size || slack_kib())
			fails("%d: %ld KiB are left, and %ld of slack", i % 5, of_process("VmSize") - size,
			      slack_kib());
	}
}

const struct test slack_margins[] = {
	{ "offsets", offsets, false },
	{ "slack on both sides", margins, false },
	{ NULL, NULL, false },
};
