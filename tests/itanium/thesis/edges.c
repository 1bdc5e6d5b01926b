// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(edges)
{
	enum { ALIGNED = 16 << 20, BYTES = 2 * ALIGNED };
	int well = 1;

	for (; rounds; rounds--) {
		char *all = reserve(BYTES);

		/* A page less at the begin, and one at the end. */
		well &= !call((long)all, PAGE, 0, 0, 0, 0, MUNMAP);
		well &= !call((long)all + BYTES - PAGE, PAGE, 0, 0, 0, 0, MUNMAP);
		touch(all + PAGE, BYTES - 2 * PAGE);
		well &= !call((long)all + PAGE, BYTES - 2 * PAGE, 0, 0, 0, 0, MUNMAP);
	}
	return well;
}
