// SPDX-License-Identifier: MIT
#include "../boot/init.h"

PROGRAM(fork)
{
	enum { BYTES = 4 << 20 };
	int well = 1;

	touch(reserve(BYTES), BYTES);
	for (; rounds; rounds--) {
		long child = call(CHILD, 0, 0, 0, 0, 0, CLONE);

		if (!child)
			call(0, 0, 0, 0, 0, 0, EXIT);
		well &= ended(child);
	}
	return well;
}
