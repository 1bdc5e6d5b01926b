// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(mmap)
{
	enum { BYTES = 4 << 20 };
	int well = 1;

	for (; rounds; rounds--) {
		char *all = reserve(BYTES);

		touch(all, BYTES);
		well &= !call((long)all, BYTES, 0, 0, 0, 0, MUNMAP);
	}
	return well;
}
